"""DescribeShareGroupOffsets (90), v0-1: where share groups stand.

KIP-932. v1 adds the lag (KIP-1226).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import IGNORABLE, NO_UUID, Since, int16, int32, int64, message, struct, uuid


@struct
class DescribeShareGroupOffsetsRequestTopic:
    topic_name: str = ""
    partitions: list[int32] = field(default_factory=list)


@struct
class DescribeShareGroupOffsetsRequestGroup:
    group_id: str = ""
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = field(default_factory=list)


@message(api_key=90, versions=range(2), flexible_from=0)
class DescribeShareGroupOffsetsRequest:
    groups: list[DescribeShareGroupOffsetsRequestGroup] = field(default_factory=list)


@struct
class DescribeShareGroupOffsetsResponsePartition:
    partition_index: int32 = 0
    start_offset: int64 = 0
    leader_epoch: int32 = 0
    lag: Annotated[int64, Since(1), IGNORABLE] = -1
    error_code: int16 = 0
    error_message: str | None = None


@struct
class DescribeShareGroupOffsetsResponseTopic:
    topic_name: str = ""
    topic_id: uuid = NO_UUID
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = field(default_factory=list)


@struct
class DescribeShareGroupOffsetsResponseGroup:
    group_id: str = ""
    topics: list[DescribeShareGroupOffsetsResponseTopic] = field(default_factory=list)
    error_code: int16 = 0
    error_message: str | None = None


@message(api_key=90, versions=range(2), flexible_from=0)
class DescribeShareGroupOffsetsResponse:
    throttle_time_ms: int32 = 0
    groups: list[DescribeShareGroupOffsetsResponseGroup] = field(default_factory=list)
