"""Records of `__share_group_state`: which records of a share partition are delivered (KIP-932).

A snapshot holds all of it; updates change parts of the last snapshot until the next one.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import NO_UUID, Tag, int8, int16, int32, int64, message, struct, uuid


@message(api_key=0, versions=range(1))
class ShareSnapshotKey:
    group_id: str = ""
    topic_id: uuid = NO_UUID
    partition: int32 = 0


@struct
class StateBatch:
    first_offset: int64 = 0
    last_offset: int64 = 0
    delivery_state: int8 = 0  # 0 available, 2 acknowledged, 4 archived
    delivery_count: int16 = 0


@message(api_key=0, versions=range(1), flexible_from=0)
class ShareSnapshotValue:
    snapshot_epoch: int32 = 0
    state_epoch: int32 = 0
    leader_epoch: int32 = 0
    start_offset: int64 = 0
    delivery_complete_count: Annotated[int32, Tag(0)] = -1
    create_timestamp: int64 = 0
    write_timestamp: int64 = 0
    state_batches: list[StateBatch] = field(default_factory=list)


@message(api_key=1, versions=range(1))
class ShareUpdateKey:
    group_id: str = ""
    topic_id: uuid = NO_UUID
    partition: int32 = 0


@message(api_key=1, versions=range(1), flexible_from=0)
class ShareUpdateValue:
    snapshot_epoch: int32 = 0
    leader_epoch: int32 = 0
    start_offset: int64 = 0
    delivery_complete_count: Annotated[int32, Tag(0)] = -1
    state_batches: list[StateBatch] = field(default_factory=list)
