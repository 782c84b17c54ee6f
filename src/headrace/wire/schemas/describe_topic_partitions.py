"""DescribeTopicPartitions (75), v0: partitions of topics, page by page.

KIP-966: shows eligible leader replicas; the cursor says where the next page begins.
"""

from __future__ import annotations

from dataclasses import field

from headrace.wire.notation import NO_UUID, int16, int32, message, struct, uuid


@struct
class TopicRequest:
    name: str = ""


@struct
class Cursor:
    topic_name: str = ""
    partition_index: int32 = 0


@message(api_key=75, versions=range(1), flexible_from=0)
class DescribeTopicPartitionsRequest:
    topics: list[TopicRequest] = field(default_factory=list)
    response_partition_limit: int32 = 2000
    cursor: Cursor | None = None


@struct
class DescribeTopicPartitionsResponsePartition:
    error_code: int16 = 0
    partition_index: int32 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = -1
    replica_nodes: list[int32] = field(default_factory=list)
    isr_nodes: list[int32] = field(default_factory=list)
    eligible_leader_replicas: list[int32] | None = None
    last_known_elr: list[int32] | None = None
    offline_replicas: list[int32] = field(default_factory=list)


@struct
class DescribeTopicPartitionsResponseTopic:
    error_code: int16 = 0
    name: str | None = ""
    topic_id: uuid = NO_UUID
    is_internal: bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(default_factory=list)
    topic_authorized_operations: int32 = -(2**31)


@message(api_key=75, versions=range(1), flexible_from=0)
class DescribeTopicPartitionsResponse:
    throttle_time_ms: int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = field(default_factory=list)
    next_cursor: Cursor | None = None  # null on the last page
