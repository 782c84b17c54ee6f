"""DescribeLogDirs (35), v1-5: log directories of a broker, with their replicas and sizes.

v2 flexible, v3 an error for the whole reply, v4 size of the volume (KIP-827), v5 cordoned directories
(KIP-1066).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import IGNORABLE, Since, int16, int32, int64, message, struct


@struct
class DescribableLogDirTopic:
    topic: str = ""
    partitions: list[int32] = field(default_factory=list)


@message(api_key=35, versions=range(1, 6), flexible_from=2)
class DescribeLogDirsRequest:
    topics: list[DescribableLogDirTopic] | None = field(default_factory=list)


@struct
class DescribeLogDirsPartition:
    partition_index: int32 = 0
    partition_size: int64 = 0
    offset_lag: int64 = 0
    is_future_key: bool = False


@struct
class DescribeLogDirsTopic:
    name: str = ""
    partitions: list[DescribeLogDirsPartition] = field(default_factory=list)


@struct
class DescribeLogDirsResult:
    error_code: int16 = 0
    log_dir: str = ""
    topics: list[DescribeLogDirsTopic] = field(default_factory=list)
    total_bytes: Annotated[int64, Since(4), IGNORABLE] = -1
    usable_bytes: Annotated[int64, Since(4), IGNORABLE] = -1
    is_cordoned: Annotated[bool, Since(5), IGNORABLE] = False


@message(api_key=35, versions=range(1, 6), flexible_from=2)
class DescribeLogDirsResponse:
    throttle_time_ms: int32 = 0
    error_code: Annotated[int16, Since(3), IGNORABLE] = 0
    results: list[DescribeLogDirsResult] = field(default_factory=list)
