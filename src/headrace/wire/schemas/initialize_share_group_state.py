"""InitializeShareGroupState (83), v0: the share coordinator starts state for partitions.

KIP-932, between group coordinator and share coordinator.
"""

from __future__ import annotations

from dataclasses import field

from headrace.wire.notation import NO_UUID, int16, int32, int64, message, struct, uuid


@struct
class PartitionData:
    partition: int32 = 0
    state_epoch: int32 = 0
    start_offset: int64 = 0


@struct
class InitializeStateData:
    topic_id: uuid = NO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


@message(api_key=83, versions=range(1), flexible_from=0)
class InitializeShareGroupStateRequest:
    group_id: str = ""
    topics: list[InitializeStateData] = field(default_factory=list)


@struct
class PartitionResult:
    partition: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None


@struct
class InitializeStateResult:
    topic_id: uuid = NO_UUID
    partitions: list[PartitionResult] = field(default_factory=list)


@message(api_key=83, versions=range(1), flexible_from=0)
class InitializeShareGroupStateResponse:
    results: list[InitializeStateResult] = field(default_factory=list)
