"""The requests that are served: one row each, and nothing is served that has no row.

ApiVersions tells clients exactly what stands here. A row names the versions that are really implemented and
the module of the handler, `headrace.server.handlers.<name>`, which is imported when its first request comes:
a node is ready before it has loaded what nobody asks for.

To serve another request kind, write `handlers/<name>.py` with a function `handle(context, request)` and add
its row here, in order of its key.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from headrace.server.context import RequestContext

Handler: TypeAlias = Callable[[RequestContext, Any], Any]
"""`handle(context, request)` gives the response, a Future of it, or NO_REPLY."""


class Row(NamedTuple):
    """A request kind: its key, the first and last version served, and its handler's module."""

    key: int
    min_version: int
    max_version: int
    handler: str

    def load(self) -> Handler:
        """The handler; imported on first use."""
        module = importlib.import_module(f"headrace.server.handlers.{self.handler}")
        handle: Handler = module.handle
        return handle


# What a listener for clients and brokers serves.
BROKER: Final[Sequence[Row]] = (
    Row(0, 3, 13, "produce"),
    Row(1, 4, 18, "fetch"),
    Row(2, 1, 11, "list_offsets"),
    Row(3, 0, 13, "metadata"),
    Row(8, 2, 10, "offset_commit"),
    Row(9, 1, 10, "offset_fetch"),
    Row(10, 0, 6, "find_coordinator"),
    Row(11, 0, 9, "join_group"),
    Row(12, 0, 4, "heartbeat"),
    Row(13, 0, 5, "leave_group"),
    Row(14, 0, 5, "sync_group"),
    Row(15, 0, 6, "describe_groups"),
    Row(16, 0, 5, "list_groups"),
    Row(17, 0, 1, "sasl_handshake"),
    Row(18, 0, 4, "api_versions"),
    Row(19, 2, 7, "create_topics"),
    Row(20, 1, 6, "delete_topics"),
    Row(21, 0, 2, "delete_records"),
    Row(22, 0, 6, "init_producer_id"),
    Row(23, 2, 4, "offset_for_leader_epoch"),
    Row(24, 0, 5, "add_partitions_to_txn"),
    Row(25, 0, 4, "add_offsets_to_txn"),
    Row(26, 0, 5, "end_txn"),
    Row(27, 1, 2, "write_txn_markers"),
    Row(28, 0, 5, "txn_offset_commit"),
    Row(29, 1, 3, "describe_acls"),
    Row(30, 1, 3, "create_acls"),
    Row(31, 1, 3, "delete_acls"),
    Row(32, 1, 4, "describe_configs"),
    Row(33, 0, 2, "alter_configs"),
    Row(34, 1, 2, "alter_replica_log_dirs"),
    Row(35, 1, 5, "describe_log_dirs"),
    Row(37, 0, 3, "create_partitions"),
    Row(42, 0, 2, "delete_groups"),
    Row(43, 0, 2, "elect_leaders"),
    Row(44, 0, 1, "incremental_alter_configs"),
    Row(45, 0, 1, "alter_partition_reassignments"),
    Row(46, 0, 0, "list_partition_reassignments"),
    Row(47, 0, 0, "offset_delete"),
    Row(55, 0, 2, "describe_quorum"),
    Row(57, 0, 2, "update_features"),
    Row(60, 0, 2, "describe_cluster"),
    Row(61, 0, 0, "describe_producers"),
    Row(64, 0, 0, "unregister_broker"),
    Row(65, 0, 0, "describe_transactions"),
    Row(66, 0, 2, "list_transactions"),
    Row(68, 0, 1, "consumer_group_heartbeat"),
    Row(69, 0, 1, "consumer_group_describe"),
    Row(74, 0, 1, "list_config_resources"),
    Row(75, 0, 0, "describe_topic_partitions"),
    Row(80, 0, 1, "add_raft_voter"),
    Row(81, 0, 0, "remove_raft_voter"),
)

# What a controller's listener serves: the quorum, brokers (KIP-631), and administration (KIP-919).
CONTROLLER: Final[Sequence[Row]] = (
    Row(1, 12, 18, "fetch_metadata_log"),
    Row(17, 0, 1, "sasl_handshake"),
    Row(18, 0, 4, "api_versions"),
    Row(19, 2, 7, "create_topics"),
    Row(20, 1, 6, "delete_topics"),
    Row(29, 1, 3, "describe_acls"),
    Row(30, 1, 3, "create_acls"),
    Row(31, 1, 3, "delete_acls"),
    Row(32, 1, 4, "describe_configs"),
    Row(33, 0, 2, "alter_configs"),
    Row(37, 0, 3, "create_partitions"),
    Row(43, 0, 2, "elect_leaders"),
    Row(44, 0, 1, "incremental_alter_configs"),
    Row(45, 0, 1, "alter_partition_reassignments"),
    Row(46, 0, 0, "list_partition_reassignments"),
    Row(52, 0, 2, "vote"),
    Row(53, 0, 1, "begin_quorum_epoch"),
    Row(54, 0, 1, "end_quorum_epoch"),
    Row(55, 0, 2, "describe_quorum"),
    Row(56, 2, 3, "alter_partition"),
    Row(57, 0, 2, "update_features"),
    Row(58, 0, 0, "envelope"),
    Row(59, 0, 1, "fetch_snapshot"),
    Row(60, 0, 2, "describe_cluster"),
    Row(62, 0, 4, "broker_registration"),
    Row(63, 0, 2, "broker_heartbeat"),
    Row(64, 0, 0, "unregister_broker"),
    Row(67, 0, 0, "allocate_producer_ids"),
    Row(70, 0, 0, "controller_registration"),
    Row(73, 0, 0, "assign_replicas_to_dirs"),
    Row(80, 0, 1, "add_raft_voter"),
    Row(81, 0, 0, "remove_raft_voter"),
    Row(82, 0, 0, "update_raft_voter"),
)


class ApiTable:
    """The rows of one kind of listener, by key."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = tuple(sorted(rows))
        self._by_key = {row.key: row for row in rows}
        assert len(self._by_key) == len(rows), "a request kind has one row"

    def find(self, key: int, version: int) -> Row | None:
        """The row that serves this version of this request kind."""
        row = self._by_key.get(key)
        return row if row is not None and row.min_version <= version <= row.max_version else None
