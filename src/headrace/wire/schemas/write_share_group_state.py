"""WriteShareGroupState (85), v0-1: the share-partition leader saves delivery state.

KIP-932. v1 counts records that are done (KIP-1226).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import IGNORABLE, NO_UUID, Since, int8, int16, int32, int64, message, struct, uuid


@struct
class StateBatch:
    first_offset: int64 = 0
    last_offset: int64 = 0
    delivery_state: int8 = 0  # 0 available, 2 acknowledged, 4 archived
    delivery_count: int16 = 0


@struct
class PartitionData:
    partition: int32 = 0
    state_epoch: int32 = 0
    leader_epoch: int32 = 0
    start_offset: int64 = 0
    delivery_complete_count: Annotated[int32, Since(1), IGNORABLE] = -1
    state_batches: list[StateBatch] = field(default_factory=list)


@struct
class WriteStateData:
    topic_id: uuid = NO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


@message(api_key=85, versions=range(2), flexible_from=0)
class WriteShareGroupStateRequest:
    group_id: str = ""
    topics: list[WriteStateData] = field(default_factory=list)


@struct
class PartitionResult:
    partition: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None


@struct
class WriteStateResult:
    topic_id: uuid = NO_UUID
    partitions: list[PartitionResult] = field(default_factory=list)


@message(api_key=85, versions=range(2), flexible_from=0)
class WriteShareGroupStateResponse:
    results: list[WriteStateResult] = field(default_factory=list)
