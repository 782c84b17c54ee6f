"""WriteTxnMarkers (27), v1-2: the transaction coordinator ends transactions on partitions.

v1 flexible, v2 tells the partition which rules the transaction follows (KIP-1228).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import IGNORABLE, Since, int8, int16, int32, int64, message, struct


@struct
class WritableTxnMarkerTopic:
    name: str = ""
    partition_indexes: list[int32] = field(default_factory=list)


@struct
class WritableTxnMarker:
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    transaction_result: bool = False  # True commits
    topics: list[WritableTxnMarkerTopic] = field(default_factory=list)
    coordinator_epoch: int32 = 0
    transaction_version: Annotated[int8, Since(2), IGNORABLE] = 0


@message(api_key=27, versions=range(1, 3), flexible_from=1)
class WriteTxnMarkersRequest:
    markers: list[WritableTxnMarker] = field(default_factory=list)


@struct
class WritableTxnMarkerPartitionResult:
    partition_index: int32 = 0
    error_code: int16 = 0


@struct
class WritableTxnMarkerTopicResult:
    name: str = ""
    partitions: list[WritableTxnMarkerPartitionResult] = field(default_factory=list)


@struct
class WritableTxnMarkerResult:
    producer_id: int64 = 0
    topics: list[WritableTxnMarkerTopicResult] = field(default_factory=list)


@message(api_key=27, versions=range(1, 3), flexible_from=1)
class WriteTxnMarkersResponse:
    markers: list[WritableTxnMarkerResult] = field(default_factory=list)
