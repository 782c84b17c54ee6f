"""ReadShareGroupState (84), v0: the share-partition leader loads delivery state.

KIP-932.
"""

from __future__ import annotations

from dataclasses import field

from headrace.wire.notation import NO_UUID, int8, int16, int32, int64, message, struct, uuid


@struct
class PartitionData:
    partition: int32 = 0
    leader_epoch: int32 = 0


@struct
class ReadStateData:
    topic_id: uuid = NO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


@message(api_key=84, versions=range(1), flexible_from=0)
class ReadShareGroupStateRequest:
    group_id: str = ""
    topics: list[ReadStateData] = field(default_factory=list)


@struct
class StateBatch:
    first_offset: int64 = 0
    last_offset: int64 = 0
    delivery_state: int8 = 0  # 0 available, 2 acknowledged, 4 archived
    delivery_count: int16 = 0


@struct
class PartitionResult:
    partition: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    state_epoch: int32 = 0
    start_offset: int64 = 0
    state_batches: list[StateBatch] = field(default_factory=list)


@struct
class ReadStateResult:
    topic_id: uuid = NO_UUID
    partitions: list[PartitionResult] = field(default_factory=list)


@message(api_key=84, versions=range(1), flexible_from=0)
class ReadShareGroupStateResponse:
    results: list[ReadStateResult] = field(default_factory=list)
