"""Vote (52), v0-2: a candidate asks for votes in the metadata quorum.

KIP-595. v1 voters are told apart by directory id (KIP-853), v2 asks first whether an election could be won
(pre-vote, KIP-996): nobody grants that who hears from a leader.

Checks, in order: the cluster's id, the voter asked for (INVALID_VOTER_KEY), the epoch (FENCED_LEADER_EPOCH).
A vote is given once per epoch, to a log that has all that this node's has, and is on the disk before the
answer leaves. See `raft/serving.py`.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import (
    IGNORABLE,
    NO_UUID,
    Since,
    Tag,
    int16,
    int32,
    int64,
    message,
    struct,
    uint16,
    uuid,
)


@struct
class RequestPartitionData:
    partition_index: int32 = 0
    replica_epoch: int32 = 0
    replica_id: int32 = 0
    replica_directory_id: Annotated[uuid, Since(1), IGNORABLE] = NO_UUID
    voter_directory_id: Annotated[uuid, Since(1), IGNORABLE] = NO_UUID
    last_offset_epoch: int32 = 0
    last_offset: int64 = 0
    pre_vote: Annotated[bool, Since(2)] = False


@struct
class RequestTopicData:
    topic_name: str = ""
    partitions: list[RequestPartitionData] = field(default_factory=list)


@message(api_key=52, versions=range(3), flexible_from=0)
class VoteRequest:
    cluster_id: str | None = None
    voter_id: Annotated[int32, Since(1), IGNORABLE] = -1  # the voter asked, so that a wrong one can tell
    topics: list[RequestTopicData] = field(default_factory=list)


@struct
class ResponsePartitionData:
    partition_index: int32 = 0
    error_code: int16 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = 0
    vote_granted: bool = False


@struct
class ResponseTopicData:
    topic_name: str = ""
    partitions: list[ResponsePartitionData] = field(default_factory=list)


@struct
class NodeEndpoint:
    node_id: int32 = 0
    host: str = ""
    port: uint16 = 0


@message(api_key=52, versions=range(3), flexible_from=0)
class VoteResponse:
    error_code: int16 = 0
    topics: list[ResponseTopicData] = field(default_factory=list)
    node_endpoints: Annotated[list[NodeEndpoint], Since(1), Tag(0)] = field(default_factory=list)
