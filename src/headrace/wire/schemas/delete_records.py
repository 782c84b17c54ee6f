"""DeleteRecords (21), v0-2: move the start of partitions forward.

Offset -1 stands for the high watermark. v2 flexible.
"""

from __future__ import annotations

from dataclasses import field

from headrace.wire.notation import int16, int32, int64, message, struct


@struct
class DeleteRecordsPartition:
    partition_index: int32 = 0
    offset: int64 = 0  # -1 stands for the high watermark


@struct
class DeleteRecordsTopic:
    name: str = ""
    partitions: list[DeleteRecordsPartition] = field(default_factory=list)


@message(api_key=21, versions=range(3), flexible_from=2)
class DeleteRecordsRequest:
    topics: list[DeleteRecordsTopic] = field(default_factory=list)
    timeout_ms: int32 = 0


@struct
class DeleteRecordsPartitionResult:
    partition_index: int32 = 0
    low_watermark: int64 = 0
    error_code: int16 = 0


@struct
class DeleteRecordsTopicResult:
    name: str = ""
    partitions: list[DeleteRecordsPartitionResult] = field(default_factory=list)


@message(api_key=21, versions=range(3), flexible_from=2)
class DeleteRecordsResponse:
    throttle_time_ms: int32 = 0
    topics: list[DeleteRecordsTopicResult] = field(default_factory=list)
