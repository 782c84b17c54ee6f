"""OffsetDelete (47), v0: forget a group's offsets of topics it no longer reads.

KIP-496. Never became flexible.
"""

from __future__ import annotations

from dataclasses import field

from headrace.wire.notation import int16, int32, message, struct


@struct
class OffsetDeleteRequestPartition:
    partition_index: int32 = 0


@struct
class OffsetDeleteRequestTopic:
    name: str = ""
    partitions: list[OffsetDeleteRequestPartition] = field(default_factory=list)


@message(api_key=47, versions=range(1))
class OffsetDeleteRequest:
    group_id: str = ""
    topics: list[OffsetDeleteRequestTopic] = field(default_factory=list)


@struct
class OffsetDeleteResponsePartition:
    partition_index: int32 = 0
    error_code: int16 = 0


@struct
class OffsetDeleteResponseTopic:
    name: str = ""
    partitions: list[OffsetDeleteResponsePartition] = field(default_factory=list)


@message(api_key=47, versions=range(1))
class OffsetDeleteResponse:
    error_code: int16 = 0
    throttle_time_ms: int32 = 0
    topics: list[OffsetDeleteResponseTopic] = field(default_factory=list)
