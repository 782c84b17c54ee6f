"""DeleteShareGroupState (86), v0: delivery state of a share group is dropped.

KIP-932.
"""

from __future__ import annotations

from dataclasses import field

from headrace.wire.notation import NO_UUID, int16, int32, message, struct, uuid


@struct
class PartitionData:
    partition: int32 = 0


@struct
class DeleteStateData:
    topic_id: uuid = NO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


@message(api_key=86, versions=range(1), flexible_from=0)
class DeleteShareGroupStateRequest:
    group_id: str = ""
    topics: list[DeleteStateData] = field(default_factory=list)


@struct
class PartitionResult:
    partition: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None


@struct
class DeleteStateResult:
    topic_id: uuid = NO_UUID
    partitions: list[PartitionResult] = field(default_factory=list)


@message(api_key=86, versions=range(1), flexible_from=0)
class DeleteShareGroupStateResponse:
    results: list[DeleteStateResult] = field(default_factory=list)
