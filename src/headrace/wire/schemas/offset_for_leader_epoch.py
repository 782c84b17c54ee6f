"""OffsetForLeaderEpoch (23), v2-4: where a leader epoch ends in the leader's log.

How a follower or consumer finds the point from which its log differs (KIP-101, KIP-320). v3 replica id, v4
flexible.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import IGNORABLE, Since, int16, int32, int64, message, struct


@struct
class OffsetForLeaderPartition:
    partition: int32 = 0
    current_leader_epoch: int32 = -1
    leader_epoch: int32 = 0


@struct
class OffsetForLeaderTopic:
    topic: str = ""
    partitions: list[OffsetForLeaderPartition] = field(default_factory=list)


@message(api_key=23, versions=range(2, 5), flexible_from=4)
class OffsetForLeaderEpochRequest:
    replica_id: Annotated[int32, Since(3), IGNORABLE] = -2  # -2 debugging, -1 consumer
    topics: list[OffsetForLeaderTopic] = field(default_factory=list)


@struct
class EpochEndOffset:
    error_code: int16 = 0
    partition: int32 = 0
    leader_epoch: int32 = -1
    end_offset: int64 = -1  # where that epoch ends, -1 if it is not known


@struct
class OffsetForLeaderTopicResult:
    topic: str = ""
    partitions: list[EpochEndOffset] = field(default_factory=list)


@message(api_key=23, versions=range(2, 5), flexible_from=4)
class OffsetForLeaderEpochResponse:
    throttle_time_ms: int32 = 0
    topics: list[OffsetForLeaderTopicResult] = field(default_factory=list)
