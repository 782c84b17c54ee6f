"""AlterShareGroupOffsets (91), v0: move the start of an empty share group.

KIP-932.
"""

from __future__ import annotations

from dataclasses import field

from headrace.wire.notation import NO_UUID, int16, int32, int64, message, struct, uuid


@struct
class AlterShareGroupOffsetsRequestPartition:
    partition_index: int32 = 0
    start_offset: int64 = 0


@struct
class AlterShareGroupOffsetsRequestTopic:
    topic_name: str = ""
    partitions: list[AlterShareGroupOffsetsRequestPartition] = field(default_factory=list)


@message(api_key=91, versions=range(1), flexible_from=0)
class AlterShareGroupOffsetsRequest:
    group_id: str = ""
    topics: list[AlterShareGroupOffsetsRequestTopic] = field(default_factory=list)


@struct
class AlterShareGroupOffsetsResponsePartition:
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None


@struct
class AlterShareGroupOffsetsResponseTopic:
    topic_name: str = ""
    topic_id: uuid = NO_UUID
    partitions: list[AlterShareGroupOffsetsResponsePartition] = field(default_factory=list)


@message(api_key=91, versions=range(1), flexible_from=0)
class AlterShareGroupOffsetsResponse:
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    responses: list[AlterShareGroupOffsetsResponseTopic] = field(default_factory=list)
