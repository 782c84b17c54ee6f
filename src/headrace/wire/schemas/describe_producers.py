"""DescribeProducers (61), v0: producers with state on partitions.

KIP-664: how an operator finds a hanging transaction.
"""

from __future__ import annotations

from dataclasses import field

from headrace.wire.notation import int16, int32, int64, message, struct


@struct
class TopicRequest:
    name: str = ""
    partition_indexes: list[int32] = field(default_factory=list)


@message(api_key=61, versions=range(1), flexible_from=0)
class DescribeProducersRequest:
    topics: list[TopicRequest] = field(default_factory=list)


@struct
class ProducerState:
    producer_id: int64 = 0
    producer_epoch: int32 = 0
    last_sequence: int32 = -1
    last_timestamp: int64 = -1
    coordinator_epoch: int32 = 0
    current_txn_start_offset: int64 = -1


@struct
class PartitionResponse:
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    active_producers: list[ProducerState] = field(default_factory=list)


@struct
class TopicResponse:
    name: str = ""
    partitions: list[PartitionResponse] = field(default_factory=list)


@message(api_key=61, versions=range(1), flexible_from=0)
class DescribeProducersResponse:
    throttle_time_ms: int32 = 0
    topics: list[TopicResponse] = field(default_factory=list)
