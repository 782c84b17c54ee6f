"""DescribeQuorum (55), v0-2: leader, voters and observers of the metadata quorum, and how far each has got.

KIP-595. v1 when each replica last fetched and was last caught up (KIP-836), v2 directory ids, endpoints,
messages (KIP-853). Only `__cluster_metadata-0` is known: UNKNOWN_TOPIC_OR_PARTITION for others.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from headrace.wire.notation import (
    IGNORABLE,
    NO_UUID,
    Since,
    int16,
    int32,
    int64,
    message,
    struct,
    uint16,
    uuid,
)

DIRECTORY_SINCE: Final = 2  # directories and listeners of voters (KIP-853)


@struct
class RequestPartitionData:
    partition_index: int32 = 0


@struct
class RequestTopicData:
    topic_name: str = ""
    partitions: list[RequestPartitionData] = field(default_factory=list)


@message(api_key=55, versions=range(3), flexible_from=0)
class DescribeQuorumRequest:
    topics: list[RequestTopicData] = field(default_factory=list)


@struct
class ReplicaState:
    replica_id: int32 = 0
    replica_directory_id: Annotated[uuid, Since(2)] = NO_UUID
    log_end_offset: int64 = 0
    last_fetch_timestamp: Annotated[int64, Since(1), IGNORABLE] = -1
    last_caught_up_timestamp: Annotated[int64, Since(1), IGNORABLE] = -1


@struct
class ResponsePartitionData:
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: Annotated[str | None, Since(2), IGNORABLE] = ""
    leader_id: int32 = 0
    leader_epoch: int32 = 0
    high_watermark: int64 = 0
    current_voters: list[ReplicaState] = field(default_factory=list)
    observers: list[ReplicaState] = field(default_factory=list)


@struct
class ResponseTopicData:
    topic_name: str = ""
    partitions: list[ResponsePartitionData] = field(default_factory=list)


@struct
class Listener:
    name: str = ""
    host: str = ""
    port: uint16 = 0


@struct
class Node:
    node_id: int32 = 0
    listeners: list[Listener] = field(default_factory=list)


@message(api_key=55, versions=range(3), flexible_from=0)
class DescribeQuorumResponse:
    error_code: int16 = 0
    error_message: Annotated[str | None, Since(2), IGNORABLE] = ""
    topics: list[ResponseTopicData] = field(default_factory=list)
    nodes: Annotated[list[Node], Since(2)] = field(default_factory=list)
