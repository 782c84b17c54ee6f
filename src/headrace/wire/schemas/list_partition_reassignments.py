"""ListPartitionReassignments (46), v0: which partitions are being moved.

KIP-455. Null stands for all partitions.
"""

from __future__ import annotations

from dataclasses import field

from headrace.wire.notation import int16, int32, message, struct


@struct
class ListPartitionReassignmentsTopics:
    name: str = ""
    partition_indexes: list[int32] = field(default_factory=list)


@message(api_key=46, versions=range(1), flexible_from=0)
class ListPartitionReassignmentsRequest:
    timeout_ms: int32 = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = None


@struct
class OngoingPartitionReassignment:
    partition_index: int32 = 0
    replicas: list[int32] = field(default_factory=list)
    adding_replicas: list[int32] = field(default_factory=list)
    removing_replicas: list[int32] = field(default_factory=list)


@struct
class OngoingTopicReassignment:
    name: str = ""
    partitions: list[OngoingPartitionReassignment] = field(default_factory=list)


@message(api_key=46, versions=range(1), flexible_from=0)
class ListPartitionReassignmentsResponse:
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = ""
    topics: list[OngoingTopicReassignment] = field(default_factory=list)
