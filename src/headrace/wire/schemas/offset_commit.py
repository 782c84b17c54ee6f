"""OffsetCommit (8), v2-10: remember how far a group has read.

v5 drops the retention time a client could ask for, v6 leader epochs, v7 static members (KIP-345), v8
flexible, v9 members of the KIP-848 protocol, whose epoch stands in the generation field, v10 topic ids
instead of names.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from headrace.wire.notation import (
    IGNORABLE,
    NO_UUID,
    Since,
    Until,
    int16,
    int32,
    int64,
    message,
    struct,
    uuid,
)

TOPIC_ID_SINCE: Final = 10
MEMBER_EPOCH_SINCE: Final = 9  # members of KIP-848 groups


@struct
class OffsetCommitRequestPartition:
    partition_index: int32 = 0
    committed_offset: int64 = 0
    committed_leader_epoch: Annotated[int32, Since(6), IGNORABLE] = -1
    committed_metadata: str | None = ""


@struct
class OffsetCommitRequestTopic:
    name: Annotated[str, Until(9), IGNORABLE] = ""
    topic_id: Annotated[uuid, Since(10), IGNORABLE] = NO_UUID
    partitions: list[OffsetCommitRequestPartition] = field(default_factory=list)


@message(api_key=8, versions=range(2, 11), flexible_from=8)
class OffsetCommitRequest:
    group_id: str = ""
    generation_id_or_member_epoch: int32 = -1  # which of both depends on the kind of group
    member_id: str = ""
    group_instance_id: Annotated[str | None, Since(7)] = None
    # ignored: the broker's offsets.retention.minutes rules
    retention_time_ms: Annotated[int64, Until(4), IGNORABLE] = -1
    topics: list[OffsetCommitRequestTopic] = field(default_factory=list)


@struct
class OffsetCommitResponsePartition:
    partition_index: int32 = 0
    error_code: int16 = 0


@struct
class OffsetCommitResponseTopic:
    name: Annotated[str, Until(9), IGNORABLE] = ""
    topic_id: Annotated[uuid, Since(10), IGNORABLE] = NO_UUID
    partitions: list[OffsetCommitResponsePartition] = field(default_factory=list)


@message(api_key=8, versions=range(2, 11), flexible_from=8)
class OffsetCommitResponse:
    throttle_time_ms: Annotated[int32, Since(3), IGNORABLE] = 0
    topics: list[OffsetCommitResponseTopic] = field(default_factory=list)
