"""The requests there are: key, name, versions, and on which listeners they are served.

The table is plain numbers, so that answering ApiVersions or checking a header imports no schema. An Api's
message classes are imported when first asked for: a node uses a third of them, and pays for no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from importlib import import_module
from typing import Any, Final


class ApiKey(IntEnum):
    """The kinds of requests by Kafka's names; the numbers travel in every request's header."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


_BROKER: Final = frozenset({"broker"})
_CONTROLLER: Final = frozenset({"controller"})
_EVERYWHERE: Final = _BROKER | _CONTROLLER
_NEVER: Final = 1 << 16

# librdkafka up to 2.x takes a broker that does not list Produce 0-2 for one without Produce (KAFKA-18659).
_ADVERTISED_MIN: Final = {ApiKey.PRODUCE: 0}
# The last version is not settled in Kafka 4.3, which advertises it only when told to: two-phase commit
# (KIP-939).
_ADVERTISED_MAX: Final = {ApiKey.INIT_PRODUCER_ID: 5}


@dataclass(frozen=True)
class Api:
    """A kind of request, and the response to it."""

    key: ApiKey
    min_version: int
    max_version: int
    flexible_from: int | None  # compact lengths, tagged fields and the longer headers from this version on
    listeners: frozenset[str]

    @cached_property
    def name(self) -> str:
        """As Kafka's documents call it: `OffsetForLeaderEpoch`."""
        return "".join(word.capitalize() for word in self.key.name.split("_"))

    @cached_property
    def request(self) -> type[Any]:
        return self._schema("Request")

    @cached_property
    def response(self) -> type[Any]:
        return self._schema("Response")

    @property
    def advertised_min(self) -> int:
        """The lowest version that ApiVersions tells of; below `min_version` nothing is parsed."""
        return _ADVERTISED_MIN.get(self.key, self.min_version)

    @property
    def advertised_max(self) -> int:
        """The highest version that ApiVersions tells of."""
        return _ADVERTISED_MAX.get(self.key, self.max_version)

    def supports(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version

    def is_flexible(self, version: int) -> bool:
        return self.flexible_from is not None and version >= self.flexible_from

    def request_header_version(self, version: int) -> int:
        return 2 if self.is_flexible(version) else 1

    def response_header_version(self, version: int) -> int:
        return 1 if version >= self.response_tags_from else 0

    @cached_property
    def response_tags_from(self) -> int:
        """The first version whose response has tagged fields in its header.

        ApiVersions is answered before the client can know what we speak: its header never changes.
        """
        if self.flexible_from is None or self.key is ApiKey.API_VERSIONS:
            return _NEVER
        return self.flexible_from

    def _schema(self, suffix: str) -> type[Any]:
        module = import_module(f"headrace.wire.schemas.{self.key.name.lower()}")
        found: type[Any] = getattr(module, self.name + suffix)
        return found


_TABLE: Final = (
    (ApiKey.PRODUCE, 3, 13, 9, _BROKER),
    (ApiKey.FETCH, 4, 18, 12, _EVERYWHERE),
    (ApiKey.LIST_OFFSETS, 1, 11, 6, _BROKER),
    (ApiKey.METADATA, 0, 13, 9, _BROKER),
    (ApiKey.OFFSET_COMMIT, 2, 10, 8, _BROKER),
    (ApiKey.OFFSET_FETCH, 1, 10, 6, _BROKER),
    (ApiKey.FIND_COORDINATOR, 0, 6, 3, _BROKER),
    (ApiKey.JOIN_GROUP, 0, 9, 6, _BROKER),
    (ApiKey.HEARTBEAT, 0, 4, 4, _BROKER),
    (ApiKey.LEAVE_GROUP, 0, 5, 4, _BROKER),
    (ApiKey.SYNC_GROUP, 0, 5, 4, _BROKER),
    (ApiKey.DESCRIBE_GROUPS, 0, 6, 5, _BROKER),
    (ApiKey.LIST_GROUPS, 0, 5, 3, _BROKER),
    (ApiKey.SASL_HANDSHAKE, 0, 1, None, _EVERYWHERE),
    (ApiKey.API_VERSIONS, 0, 5, 3, _EVERYWHERE),
    (ApiKey.CREATE_TOPICS, 2, 7, 5, _EVERYWHERE),
    (ApiKey.DELETE_TOPICS, 1, 6, 4, _EVERYWHERE),
    (ApiKey.DELETE_RECORDS, 0, 2, 2, _BROKER),
    (ApiKey.INIT_PRODUCER_ID, 0, 6, 2, _BROKER),
    (ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, 4, _BROKER),
    (ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, 3, _BROKER),
    (ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, 3, _BROKER),
    (ApiKey.END_TXN, 0, 5, 3, _BROKER),
    (ApiKey.WRITE_TXN_MARKERS, 1, 2, 1, _BROKER),
    (ApiKey.TXN_OFFSET_COMMIT, 0, 6, 3, _BROKER),
    (ApiKey.DESCRIBE_ACLS, 1, 3, 2, _EVERYWHERE),
    (ApiKey.CREATE_ACLS, 1, 3, 2, _EVERYWHERE),
    (ApiKey.DELETE_ACLS, 1, 3, 2, _EVERYWHERE),
    (ApiKey.DESCRIBE_CONFIGS, 1, 4, 4, _EVERYWHERE),
    (ApiKey.ALTER_CONFIGS, 0, 2, 2, _EVERYWHERE),
    (ApiKey.ALTER_REPLICA_LOG_DIRS, 1, 2, 2, _BROKER),
    (ApiKey.DESCRIBE_LOG_DIRS, 1, 5, 2, _BROKER),
    (ApiKey.SASL_AUTHENTICATE, 0, 2, 2, _EVERYWHERE),
    (ApiKey.CREATE_PARTITIONS, 0, 3, 2, _EVERYWHERE),
    (ApiKey.CREATE_DELEGATION_TOKEN, 1, 3, 2, _EVERYWHERE),
    (ApiKey.RENEW_DELEGATION_TOKEN, 1, 2, 2, _EVERYWHERE),
    (ApiKey.EXPIRE_DELEGATION_TOKEN, 1, 2, 2, _EVERYWHERE),
    (ApiKey.DESCRIBE_DELEGATION_TOKEN, 1, 3, 2, _EVERYWHERE),
    (ApiKey.DELETE_GROUPS, 0, 3, 2, _BROKER),
    (ApiKey.ELECT_LEADERS, 0, 2, 2, _EVERYWHERE),
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, 1, _EVERYWHERE),
    (ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, 0, _EVERYWHERE),
    (ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, 0, _EVERYWHERE),
    (ApiKey.OFFSET_DELETE, 0, 0, None, _BROKER),
    (ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, 1, _BROKER),
    (ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, 1, _EVERYWHERE),
    (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, 0, _EVERYWHERE),
    (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, 0, _EVERYWHERE),
    (ApiKey.VOTE, 0, 2, 0, _CONTROLLER),
    (ApiKey.BEGIN_QUORUM_EPOCH, 0, 1, 1, _CONTROLLER),
    (ApiKey.END_QUORUM_EPOCH, 0, 1, 1, _CONTROLLER),
    (ApiKey.DESCRIBE_QUORUM, 0, 2, 0, _EVERYWHERE),
    (ApiKey.ALTER_PARTITION, 2, 3, 0, _CONTROLLER),
    (ApiKey.UPDATE_FEATURES, 0, 2, 0, _EVERYWHERE),
    (ApiKey.ENVELOPE, 0, 0, 0, _CONTROLLER),
    (ApiKey.FETCH_SNAPSHOT, 0, 1, 0, _CONTROLLER),
    (ApiKey.DESCRIBE_CLUSTER, 0, 2, 0, _EVERYWHERE),
    (ApiKey.DESCRIBE_PRODUCERS, 0, 0, 0, _BROKER),
    (ApiKey.BROKER_REGISTRATION, 0, 4, 0, _CONTROLLER),
    (ApiKey.BROKER_HEARTBEAT, 0, 2, 0, _CONTROLLER),
    (ApiKey.UNREGISTER_BROKER, 0, 0, 0, _EVERYWHERE),
    (ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, 0, _BROKER),
    (ApiKey.LIST_TRANSACTIONS, 0, 2, 0, _BROKER),
    (ApiKey.ALLOCATE_PRODUCER_IDS, 0, 0, 0, _CONTROLLER),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, 0, _BROKER),
    (ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, 0, _BROKER),
    (ApiKey.CONTROLLER_REGISTRATION, 0, 0, 0, _CONTROLLER),
    (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0, 0, _BROKER),
    (ApiKey.PUSH_TELEMETRY, 0, 0, 0, _BROKER),
    (ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0, 0, 0, _CONTROLLER),
    (ApiKey.LIST_CONFIG_RESOURCES, 0, 1, 0, _BROKER),
    (ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, 0, _BROKER),
    (ApiKey.SHARE_GROUP_HEARTBEAT, 1, 1, 0, _BROKER),
    (ApiKey.SHARE_GROUP_DESCRIBE, 1, 1, 0, _BROKER),
    (ApiKey.SHARE_FETCH, 1, 2, 0, _BROKER),
    (ApiKey.SHARE_ACKNOWLEDGE, 1, 2, 0, _BROKER),
    (ApiKey.ADD_RAFT_VOTER, 0, 1, 0, _EVERYWHERE),
    (ApiKey.REMOVE_RAFT_VOTER, 0, 0, 0, _EVERYWHERE),
    (ApiKey.UPDATE_RAFT_VOTER, 0, 0, 0, _CONTROLLER),
    (ApiKey.INITIALIZE_SHARE_GROUP_STATE, 0, 0, 0, _BROKER),
    (ApiKey.READ_SHARE_GROUP_STATE, 0, 0, 0, _BROKER),
    (ApiKey.WRITE_SHARE_GROUP_STATE, 0, 1, 0, _BROKER),
    (ApiKey.DELETE_SHARE_GROUP_STATE, 0, 0, 0, _BROKER),
    (ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, 0, 1, 0, _BROKER),
    (ApiKey.STREAMS_GROUP_HEARTBEAT, 0, 0, 0, _BROKER),
    (ApiKey.STREAMS_GROUP_DESCRIBE, 0, 0, 0, _BROKER),
    (ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, 1, 0, _BROKER),
    (ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, 0, 0, _BROKER),
    (ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, 0, 0, _BROKER),
)

# By plain numbers, as they come from the wire: a look-up by one finds its key without comparing.
API: Final[dict[int, Api]] = {int(row[0]): Api(*row) for row in _TABLE}
API_BY_NAME: Final[dict[str, Api]] = {api.name: api for api in API.values()}
