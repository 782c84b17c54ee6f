"""BeginQuorumEpoch (53), v0-1: a new leader of the metadata quorum announces itself.

KIP-595. v1 flexible, with voter keys and the leader's endpoints (KIP-853).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import IGNORABLE, NO_UUID, Since, Tag, int16, int32, message, struct, uint16, uuid


@struct
class RequestPartitionData:
    partition_index: int32 = 0
    voter_directory_id: Annotated[uuid, Since(1), IGNORABLE] = NO_UUID
    leader_id: int32 = 0
    leader_epoch: int32 = 0


@struct
class RequestTopicData:
    topic_name: str = ""
    partitions: list[RequestPartitionData] = field(default_factory=list)


@struct
class LeaderEndpoint:
    name: str = ""
    host: str = ""
    port: uint16 = 0


@message(api_key=53, versions=range(2), flexible_from=1)
class BeginQuorumEpochRequest:
    cluster_id: str | None = None
    voter_id: Annotated[int32, Since(1), IGNORABLE] = -1
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


@message(api_key=53, versions=range(2), flexible_from=1)
class BeginQuorumEpochResponse:
    error_code: int16 = 0
    topics: list[ResponseTopicData] = field(default_factory=list)
    node_endpoints: Annotated[list[NodeEndpoint], Since(1), Tag(0)] = field(default_factory=list)
