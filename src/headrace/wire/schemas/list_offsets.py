"""ListOffsets (2), v1-11: find an offset by timestamp or by a named place in the log.

Negative timestamps are places: -1 latest, -2 earliest, -3 the largest timestamp (v7), -4 earliest local
(v8), -5 last tiered (v9), -6 earliest not yet uploaded (v11). v2 isolation level, v4 leader epochs, v6
flexible, v10 a time-out for answers that need the remote store.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from headrace.wire.notation import IGNORABLE, Since, int8, int16, int32, int64, message, struct

LEADER_EPOCH_SINCE: Final = 4  # KIP-320
OFFSET_NOT_AVAILABLE_SINCE: Final = 5  # KIP-207


@struct
class ListOffsetsPartition:
    partition_index: int32 = 0
    current_leader_epoch: Annotated[int32, Since(4), IGNORABLE] = -1
    timestamp: int64 = 0  # or a named place, see above


@struct
class ListOffsetsTopic:
    name: str = ""
    partitions: list[ListOffsetsPartition] = field(default_factory=list)


@message(api_key=2, versions=range(1, 12), flexible_from=6)
class ListOffsetsRequest:
    replica_id: int32 = 0  # -1 consumer, -2 debugging
    isolation_level: Annotated[int8, Since(2)] = 0
    topics: list[ListOffsetsTopic] = field(default_factory=list)
    timeout_ms: Annotated[int32, Since(10), IGNORABLE] = 0  # for answers that need the remote store


@struct
class ListOffsetsPartitionResponse:
    partition_index: int32 = 0
    error_code: int16 = 0
    timestamp: int64 = -1
    offset: int64 = -1
    leader_epoch: Annotated[int32, Since(4)] = -1


@struct
class ListOffsetsTopicResponse:
    name: str = ""
    partitions: list[ListOffsetsPartitionResponse] = field(default_factory=list)


@message(api_key=2, versions=range(1, 12), flexible_from=6)
class ListOffsetsResponse:
    throttle_time_ms: Annotated[int32, Since(2), IGNORABLE] = 0
    topics: list[ListOffsetsTopicResponse] = field(default_factory=list)
