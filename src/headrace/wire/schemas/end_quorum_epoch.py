"""EndQuorumEpoch (54), v0-1: the leader of the metadata quorum resigns, and names who should follow it.

KIP-595. The first of its candidates stands for election at once, the others a little later. v1 flexible;
candidates carry directory ids and the leader its endpoints (KIP-853).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import (
    IGNORABLE,
    NO_UUID,
    Since,
    Tag,
    Until,
    int16,
    int32,
    message,
    struct,
    uint16,
    uuid,
)


@struct
class ReplicaInfo:
    candidate_id: int32 = 0
    candidate_directory_id: uuid = NO_UUID


@struct
class RequestPartitionData:
    partition_index: int32 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = 0
    preferred_successors: Annotated[list[int32], Until(0), IGNORABLE] = field(default_factory=list)
    preferred_candidates: Annotated[list[ReplicaInfo], Since(1), IGNORABLE] = field(default_factory=list)


@struct
class RequestTopicData:
    topic_name: str = ""
    partitions: list[RequestPartitionData] = field(default_factory=list)


@struct
class LeaderEndpoint:
    name: str = ""
    host: str = ""
    port: uint16 = 0


@message(api_key=54, versions=range(2), flexible_from=1)
class EndQuorumEpochRequest:
    cluster_id: str | None = None
    topics: list[RequestTopicData] = field(default_factory=list)
    leader_endpoints: Annotated[list[LeaderEndpoint], Since(1), IGNORABLE] = field(default_factory=list)


@struct
class ResponsePartitionData:
    partition_index: int32 = 0
    error_code: int16 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = 0


@struct
class ResponseTopicData:
    topic_name: str = ""
    partitions: list[ResponsePartitionData] = field(default_factory=list)


@struct
class NodeEndpoint:
    node_id: int32 = 0
    host: str = ""
    port: uint16 = 0


@message(api_key=54, versions=range(2), flexible_from=1)
class EndQuorumEpochResponse:
    error_code: int16 = 0
    topics: list[ResponseTopicData] = field(default_factory=list)
    node_endpoints: Annotated[list[NodeEndpoint], Since(1), Tag(0)] = field(default_factory=list)
