"""ReadShareGroupStateSummary (87), v0-1: where share partitions start, without the state of each record.

KIP-932. v1 counts records that are done (KIP-1226).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import IGNORABLE, NO_UUID, Since, int16, int32, int64, message, struct, uuid


@struct
class PartitionData:
    partition: int32 = 0
    leader_epoch: int32 = 0


@struct
class ReadStateSummaryData:
    topic_id: uuid = NO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


@message(api_key=87, versions=range(2), flexible_from=0)
class ReadShareGroupStateSummaryRequest:
    group_id: str = ""
    topics: list[ReadStateSummaryData] = field(default_factory=list)


@struct
class PartitionResult:
    partition: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    state_epoch: int32 = 0
    leader_epoch: int32 = 0
    start_offset: int64 = 0
    delivery_complete_count: Annotated[int32, Since(1), IGNORABLE] = -1


@struct
class ReadStateSummaryResult:
    topic_id: uuid = NO_UUID
    partitions: list[PartitionResult] = field(default_factory=list)


@message(api_key=87, versions=range(2), flexible_from=0)
class ReadShareGroupStateSummaryResponse:
    results: list[ReadStateSummaryResult] = field(default_factory=list)
