"""The requests that are served: one row each, and nothing is served that has no row.

ApiVersions tells clients exactly what stands here. A row says which versions are really implemented and who
serves them: a handler, or a part of the node to which requests are passed on as they are
(`server/forwarding.py`). A handler's module is named like its request kind, `server/handlers/<name>.py`, and
is imported when its first request comes: a node is ready before it has loaded what nobody asks for.

A row also says who may ask (`server/authority.py`): the dispatcher asks the authorizer before it calls the
handler. A table with a row that does not say so cannot be made, and a node with it does not start.

What is done with requests that have many entries says `server/request_pieces.py`, for the same keys.

To serve another request kind, add its row here, in order of its key; where there is something to decide,
write `handlers/<name>.py` with a function `handle(context, request)`.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.server import authorities
from headrace.server.authorities import (
    READ_GROUP,
    TXN_OFFSETS,
    each_config_resource,
    each_group,
    each_topic,
    need,
    need_cluster,
)
from headrace.server.authority import (
    OPEN,
    Authority,
    InHandler,
    guarded,
    on_group,
    on_topic,
    on_transactional_id,
)
from headrace.server.authorizer import Authorizer, Operation, is_configured
from headrace.server.forwarding import (
    Handler,
    change_partitions,
    to_controller,
    to_own_controller,
    to_quorum,
)
from headrace.server.request_pieces import IN_SLICES, LONG_REQUESTS, Long
from headrace.wire.apis import API, ApiKey
from headrace.wire.schemas.api_versions import ApiVersion

if TYPE_CHECKING:
    from headrace.settings.broker_config import BrokerConfig


class Row(NamedTuple):
    """A request kind: its key, the first and last version served, who serves it where that is no handler
    of its own, and who may ask for it.
    """

    key: ApiKey
    min_version: int
    max_version: int
    served_by: Handler | None = None
    authority: Authority = ()

    @property
    def advertised_min(self) -> int:
        """The lowest version that clients are told of: of Produce v0, for which an old librdkafka looks,
        though it is served from v3 on."""
        api = API[self.key]
        return api.advertised_min if self.min_version == api.min_version else self.min_version

    @property
    def long(self) -> Long | None:
        """What is done with requests that have many entries, where that is something of its own."""
        return LONG_REQUESTS.get(self.key)

    def load(self) -> Handler:
        """What serves it; a handler's module is imported on first use."""
        if self.served_by is not None:
            return self.served_by
        handle: Handler = self._module().handle
        return handle

    def load_for_long(self) -> Handler:
        """What serves its requests with many entries."""
        if self.served_by is not None or self.long is not IN_SLICES:
            return self.load()
        handle: Handler = self._module().handle_in_slices
        return handle

    def _module(self) -> ModuleType:
        return importlib.import_module(f"headrace.server.handlers.{self.key.name.lower()}")

    def load_guarded(self, authorizer: Authorizer, *, is_long: bool = False) -> Handler:
        """What serves it, behind the authority of this row. Without an authorizer nothing is asked."""
        handle = self.load_for_long() if is_long else self.load()
        if not is_configured(authorizer):
            return handle
        return guarded(self.authority, handle, API[self.key].response)


ALTER, DESCRIBE = need_cluster(Operation.ALTER), need_cluster(Operation.DESCRIBE)
"""What administrators need of the cluster."""

CLUSTER_ACTION = need_cluster(Operation.CLUSTER_ACTION)
"""What nodes need to ask each other."""


# What a listener for clients and brokers serves.
BROKER: Final[Sequence[Row]] = (
    Row(ApiKey.PRODUCE, 3, 13, authority=authorities.PRODUCE),
    Row(ApiKey.FETCH, 4, 18, authority=authorities.FETCH),
    Row(ApiKey.LIST_OFFSETS, 1, 11, authority=each_topic(Operation.DESCRIBE)),
    Row(ApiKey.METADATA, 0, 13, authority=authorities.METADATA),
    Row(ApiKey.OFFSET_COMMIT, 2, 10, authority=(*READ_GROUP, *each_topic(Operation.READ))),
    Row(ApiKey.OFFSET_FETCH, 1, 10, authority=authorities.OFFSET_FETCH),
    Row(ApiKey.FIND_COORDINATOR, 0, 6, authority=authorities.FIND_COORDINATOR),
    Row(ApiKey.JOIN_GROUP, 0, 9, authority=READ_GROUP),
    Row(ApiKey.HEARTBEAT, 0, 4, authority=READ_GROUP),
    Row(ApiKey.LEAVE_GROUP, 0, 5, authority=READ_GROUP),
    Row(ApiKey.SYNC_GROUP, 0, 5, authority=authorities.SYNC_GROUP),
    Row(ApiKey.DESCRIBE_GROUPS, 0, 6, authority=each_group(Operation.DESCRIBE, "groups")),
    Row(ApiKey.LIST_GROUPS, 0, 5, authority=authorities.LIST_GROUPS),
    Row(ApiKey.SASL_HANDSHAKE, 0, 1, authority=OPEN),
    Row(ApiKey.API_VERSIONS, 0, 5, authority=OPEN),
    Row(ApiKey.CREATE_TOPICS, 2, 7, change_partitions, authority=authorities.CREATE_TOPICS),
    Row(ApiKey.DELETE_TOPICS, 1, 6, change_partitions, authority=authorities.DELETE_TOPICS),
    Row(ApiKey.DELETE_RECORDS, 0, 2, authority=each_topic(Operation.DELETE)),
    Row(ApiKey.INIT_PRODUCER_ID, 0, 6, authority=authorities.INIT_PRODUCER_ID),
    Row(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, authority=authorities.OFFSET_FOR_LEADER_EPOCH),
    Row(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, authority=authorities.ADD_PARTITIONS_TO_TXN),
    Row(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, authority=TXN_OFFSETS),
    Row(ApiKey.END_TXN, 0, 5, authority=need(on_transactional_id(Operation.WRITE))),
    Row(ApiKey.WRITE_TXN_MARKERS, 1, 2, authority=need_cluster(Operation.ALTER, Operation.CLUSTER_ACTION)),
    Row(ApiKey.TXN_OFFSET_COMMIT, 0, 6, authority=(*TXN_OFFSETS, *each_topic(Operation.READ))),
    Row(ApiKey.DESCRIBE_ACLS, 1, 3, authority=DESCRIBE),
    Row(ApiKey.CREATE_ACLS, 1, 3, authority=ALTER),
    Row(ApiKey.DELETE_ACLS, 1, 3, authority=ALTER),
    Row(ApiKey.DESCRIBE_CONFIGS, 1, 4, authority=each_config_resource(Operation.DESCRIBE_CONFIGS)),
    Row(ApiKey.ALTER_CONFIGS, 0, 2, authority=each_config_resource(Operation.ALTER_CONFIGS)),
    Row(ApiKey.ALTER_REPLICA_LOG_DIRS, 1, 2, authority=ALTER),
    Row(ApiKey.DESCRIBE_LOG_DIRS, 1, 5, authority=DESCRIBE),
    Row(ApiKey.SASL_AUTHENTICATE, 0, 2, authority=OPEN),
    Row(ApiKey.CREATE_PARTITIONS, 0, 3, change_partitions, authority=each_topic(Operation.ALTER)),
    Row(ApiKey.CREATE_DELEGATION_TOKEN, 1, 3, authority=authorities.CREATE_TOKEN),
    Row(ApiKey.RENEW_DELEGATION_TOKEN, 1, 2, authority=authorities.CHANGE_TOKEN),
    Row(ApiKey.EXPIRE_DELEGATION_TOKEN, 1, 2, authority=authorities.CHANGE_TOKEN),
    Row(ApiKey.DESCRIBE_DELEGATION_TOKEN, 1, 3, authority=authorities.DESCRIBE_TOKEN),
    Row(ApiKey.DELETE_GROUPS, 0, 3, authority=each_group(Operation.DELETE, "groups_names")),
    Row(ApiKey.ELECT_LEADERS, 0, 2, to_controller, authority=ALTER),
    Row(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, authority=each_config_resource(Operation.ALTER_CONFIGS)),
    Row(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, to_controller, authority=ALTER),
    Row(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, to_controller, authority=DESCRIBE),
    Row(
        ApiKey.OFFSET_DELETE, 0, 0, authority=(*need(on_group(Operation.DELETE)), *each_topic(Operation.READ))
    ),
    Row(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, authority=need_cluster(Operation.DESCRIBE_CONFIGS)),
    Row(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, to_controller, authority=need_cluster(Operation.ALTER_CONFIGS)),
    Row(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, authority=DESCRIBE),
    Row(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, to_controller, authority=ALTER),
    Row(ApiKey.DESCRIBE_QUORUM, 0, 2, to_controller, authority=DESCRIBE),
    Row(ApiKey.UPDATE_FEATURES, 0, 2, to_controller, authority=ALTER),
    Row(ApiKey.DESCRIBE_CLUSTER, 0, 2, authority=authorities.DESCRIBE_CLUSTER),
    Row(ApiKey.DESCRIBE_PRODUCERS, 0, 0, authority=each_topic(Operation.READ)),
    Row(ApiKey.UNREGISTER_BROKER, 0, 0, to_controller, authority=ALTER),
    Row(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, authority=authorities.DESCRIBE_TRANSACTIONS),
    Row(ApiKey.LIST_TRANSACTIONS, 0, 2, authority=(InHandler((on_transactional_id(Operation.DESCRIBE),)),)),
    Row(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, authority=authorities.CONSUMER_GROUP_HEARTBEAT),
    Row(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, authority=authorities.CONSUMER_GROUP_DESCRIBE),
    Row(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0, authority=OPEN),
    Row(ApiKey.PUSH_TELEMETRY, 0, 0, authority=OPEN),
    Row(ApiKey.LIST_CONFIG_RESOURCES, 0, 1, authority=need_cluster(Operation.DESCRIBE_CONFIGS)),
    Row(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, authority=(InHandler((on_topic(Operation.DESCRIBE),)),)),
    Row(ApiKey.SHARE_GROUP_HEARTBEAT, 1, 1, authority=authorities.CONSUMER_GROUP_HEARTBEAT),
    Row(ApiKey.SHARE_GROUP_DESCRIBE, 1, 1, authority=authorities.SHARE_GROUP_DESCRIBE),
    Row(ApiKey.SHARE_FETCH, 1, 2, authority=authorities.SHARE_RECORDS),
    Row(ApiKey.SHARE_ACKNOWLEDGE, 1, 2, authority=authorities.SHARE_RECORDS),
    Row(ApiKey.ADD_RAFT_VOTER, 0, 1, to_controller, authority=ALTER),
    Row(ApiKey.REMOVE_RAFT_VOTER, 0, 0, to_controller, authority=ALTER),
    Row(ApiKey.INITIALIZE_SHARE_GROUP_STATE, 0, 0, authority=CLUSTER_ACTION),
    Row(ApiKey.READ_SHARE_GROUP_STATE, 0, 0, authority=CLUSTER_ACTION),
    Row(ApiKey.WRITE_SHARE_GROUP_STATE, 0, 1, authority=CLUSTER_ACTION),
    Row(ApiKey.DELETE_SHARE_GROUP_STATE, 0, 0, authority=CLUSTER_ACTION),
    Row(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, 0, 1, authority=CLUSTER_ACTION),
    Row(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, 0, authority=authorities.STREAMS_GROUP_HEARTBEAT),
    Row(ApiKey.STREAMS_GROUP_DESCRIBE, 0, 0, authority=authorities.STREAMS_GROUP_DESCRIBE),
    Row(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, 1, authority=authorities.DESCRIBE_SHARE_GROUP_OFFSETS),
    Row(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, 0, authority=authorities.ALTER_SHARE_GROUP_OFFSETS),
    Row(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, 0, authority=authorities.DELETE_SHARE_GROUP_OFFSETS),
)

# What a controller's listener serves: the quorum, brokers (KIP-631), and administration (KIP-919).
CONTROLLER: Final[Sequence[Row]] = (
    Row(ApiKey.FETCH, 12, 18, to_quorum, authority=CLUSTER_ACTION),
    Row(ApiKey.SASL_HANDSHAKE, 0, 1, authority=OPEN),
    Row(ApiKey.API_VERSIONS, 0, 5, authority=OPEN),
    Row(ApiKey.CREATE_TOPICS, 2, 7, change_partitions, authority=authorities.CREATE_TOPICS),
    Row(ApiKey.DELETE_TOPICS, 1, 6, change_partitions, authority=authorities.DELETE_TOPICS),
    Row(ApiKey.DESCRIBE_ACLS, 1, 3, authority=DESCRIBE),
    Row(ApiKey.CREATE_ACLS, 1, 3, authority=ALTER),
    Row(ApiKey.DELETE_ACLS, 1, 3, authority=ALTER),
    Row(ApiKey.DESCRIBE_CONFIGS, 1, 4, authority=each_config_resource(Operation.DESCRIBE_CONFIGS)),
    Row(ApiKey.ALTER_CONFIGS, 0, 2, authority=each_config_resource(Operation.ALTER_CONFIGS)),
    Row(ApiKey.SASL_AUTHENTICATE, 0, 2, authority=OPEN),
    Row(ApiKey.CREATE_PARTITIONS, 0, 3, change_partitions, authority=each_topic(Operation.ALTER)),
    Row(ApiKey.CREATE_DELEGATION_TOKEN, 1, 3, authority=authorities.CREATE_TOKEN),
    Row(ApiKey.RENEW_DELEGATION_TOKEN, 1, 2, authority=authorities.CHANGE_TOKEN),
    Row(ApiKey.EXPIRE_DELEGATION_TOKEN, 1, 2, authority=authorities.CHANGE_TOKEN),
    Row(ApiKey.DESCRIBE_DELEGATION_TOKEN, 1, 3, authority=authorities.DESCRIBE_TOKEN),
    Row(ApiKey.ELECT_LEADERS, 0, 2, to_controller, authority=ALTER),
    Row(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, authority=each_config_resource(Operation.ALTER_CONFIGS)),
    Row(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, to_controller, authority=ALTER),
    Row(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, to_controller, authority=DESCRIBE),
    Row(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, to_controller, authority=need_cluster(Operation.ALTER_CONFIGS)),
    Row(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, authority=DESCRIBE),
    Row(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, to_controller, authority=ALTER),
    Row(ApiKey.VOTE, 0, 2, to_quorum, authority=CLUSTER_ACTION),
    Row(ApiKey.BEGIN_QUORUM_EPOCH, 0, 1, to_quorum, authority=CLUSTER_ACTION),
    Row(ApiKey.END_QUORUM_EPOCH, 0, 1, to_quorum, authority=CLUSTER_ACTION),
    Row(ApiKey.DESCRIBE_QUORUM, 0, 2, to_controller, authority=DESCRIBE),
    Row(ApiKey.ALTER_PARTITION, 2, 3, to_own_controller, authority=CLUSTER_ACTION),
    Row(ApiKey.UPDATE_FEATURES, 0, 2, to_controller, authority=ALTER),
    Row(ApiKey.ENVELOPE, 0, 0, authority=CLUSTER_ACTION),
    Row(ApiKey.FETCH_SNAPSHOT, 0, 1, to_quorum, authority=CLUSTER_ACTION),
    Row(ApiKey.DESCRIBE_CLUSTER, 0, 2, authority=ALTER),
    Row(ApiKey.BROKER_REGISTRATION, 0, 4, to_own_controller, authority=CLUSTER_ACTION),
    Row(ApiKey.BROKER_HEARTBEAT, 0, 2, authority=CLUSTER_ACTION),
    Row(ApiKey.UNREGISTER_BROKER, 0, 0, to_controller, authority=ALTER),
    Row(ApiKey.ALLOCATE_PRODUCER_IDS, 0, 0, to_own_controller, authority=CLUSTER_ACTION),
    Row(ApiKey.CONTROLLER_REGISTRATION, 0, 0, to_own_controller, authority=CLUSTER_ACTION),
    Row(ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0, 0, to_own_controller, authority=CLUSTER_ACTION),
    Row(ApiKey.ADD_RAFT_VOTER, 0, 1, to_controller, authority=ALTER),
    Row(ApiKey.REMOVE_RAFT_VOTER, 0, 0, to_controller, authority=ALTER),
    Row(ApiKey.UPDATE_RAFT_VOTER, 0, 0, to_own_controller, authority=CLUSTER_ACTION),
)


TWO_PHASE_COMMIT: Final = ("transaction.two.phase.commit.enable", "unstable.api.versions.enable")
"""Settings that have InitProducerId told of with its last version: in Kafka it is not settled yet (KIP-939),
and clients that see it would ask for what nobody has allowed."""


CLIENT_TELEMETRY: Final = frozenset({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY})
RECEIVERS: Final = ("headrace.metrics.listener", "headrace.client.metrics.otlp.endpoint")
"""Settings that say who sees what clients push. Without one the two requests are not served, as by a Kafka
without a plugin for them: clients that find them ask every broker, and push what nobody would see."""


def broker_rows(config: BrokerConfig) -> list[Row]:
    """What a broker's listeners serve with these settings."""
    rows: Sequence[Row] = BROKER
    if not any(config.str(name) for name in RECEIVERS):
        rows = [row for row in rows if row.key not in CLIENT_TELEMETRY]
    if any(config.bool(name) for name in TWO_PHASE_COMMIT):
        return list(rows)
    return [
        row._replace(max_version=API[row.key].advertised_max) if row.key is ApiKey.INIT_PRODUCER_ID else row
        for row in rows
    ]


class ApiTable:
    """The rows of one kind of listener, by key."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = tuple(sorted(rows, key=lambda row: row.key))
        self._by_key = {int(row.key): row for row in rows}
        assert len(self._by_key) == len(rows), "a request kind has one row"
        open_doors = [row.key.name for row in rows if not row.authority]
        if open_doors:
            raise ValueError(
                f"nothing says who may ask for {', '.join(open_doors)}: their rows need an authority"
            )

    @cached_property
    def advertised(self) -> list[ApiVersion]:
        """The rows as ApiVersions tells them: the same for every connection."""
        return [ApiVersion(row.key, row.advertised_min, row.max_version) for row in self.rows]

    def find(self, key: int, version: int) -> Row | None:
        """The row that serves this version of this request kind."""
        row = self._by_key.get(key)
        return row if row is not None and row.min_version <= version <= row.max_version else None
