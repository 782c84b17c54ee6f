"""Fetch (1), v4-18: read record batches, for consumers and for followers.

v4 isolation level, v5 log start offset, v7 incremental sessions (KIP-227), v9 the leader epoch for fencing
(KIP-320), v10 zstd, v11 the consumer's rack (KIP-392), v12 flexible, with the last fetched epoch and
divergence for truncation, v13 topic ids, v15 the replica's broker epoch (KIP-903), v16 leader endpoints
(KIP-951), v17 the directory of a voter (KIP-853), v18 the high watermark a follower knows (KIP-1166).

On a controller's listener it reads the metadata log, for voters and observers (KIP-595). Only
`__cluster_metadata-0`: INVALID_REQUEST for others. Errors of the epoch (FENCED_LEADER_EPOCH,
UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER) name the leader. A log that differs is told where (diverging
epoch), one that is behind the log's start is sent to a snapshot. See `raft/serving.py`.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from headrace.wire.notation import (
    IGNORABLE,
    NO_UUID,
    OMITTED_IS_NONE,
    Since,
    Tag,
    Until,
    int8,
    int16,
    int32,
    int64,
    message,
    records_chunks,
    struct,
    uuid,
)

READ_FROM_FOLLOWER_SINCE: Final = 11  # KIP-392
TOPIC_ID_SINCE: Final = 13
CURRENT_LEADER_SINCE: Final = 16  # KIP-951
HIGH_WATERMARK_SINCE: Final = 18  # KIP-1166


@struct
class ReplicaState:
    replica_id: int32 = -1
    replica_epoch: int64 = -1  # the follower's broker epoch (KIP-903)


@struct
class FetchPartition:
    partition: int32 = 0
    current_leader_epoch: Annotated[int32, Since(9), IGNORABLE] = -1
    fetch_offset: int64 = 0
    # epoch of the last record the follower has: the leader looks for divergence
    last_fetched_epoch: Annotated[int32, Since(12)] = -1
    log_start_offset: Annotated[int64, Since(5), IGNORABLE] = -1  # the follower's; consumers send -1
    partition_max_bytes: int32 = 0
    replica_directory_id: Annotated[uuid, Since(17), Tag(0), IGNORABLE] = NO_UUID  # set by voters (KIP-853)
    # the follower's, so that the leader wakes it when it has moved (KIP-1166)
    high_watermark: Annotated[int64, Since(18), Tag(1), IGNORABLE] = 2**63 - 1


@struct
class FetchTopic:
    topic: Annotated[str, Until(12), IGNORABLE] = ""
    topic_id: Annotated[uuid, Since(13), IGNORABLE] = NO_UUID
    partitions: list[FetchPartition] = field(default_factory=list)


@struct
class ForgottenTopic:
    topic: Annotated[str, Until(12), IGNORABLE] = ""
    topic_id: Annotated[uuid, Since(13), IGNORABLE] = NO_UUID
    partitions: list[int32] = field(default_factory=list)


@message(api_key=1, versions=range(4, 19), flexible_from=12)
class FetchRequest:
    # set by nodes that fetch the metadata log
    cluster_id: Annotated[str | None, Since(12), Tag(0), IGNORABLE] = None
    replica_id: Annotated[int32, Until(14)] = -1  # -1 for consumers; from v15 on it moves into replica_state
    replica_state: Annotated[ReplicaState | None, Since(15), Tag(1), OMITTED_IS_NONE] = None
    max_wait_ms: int32 = 0
    min_bytes: int32 = 0
    max_bytes: int32 = 2**31 - 1
    isolation_level: int8 = 0  # 0 uncommitted, 1 committed
    session_id: Annotated[int32, Since(7), IGNORABLE] = 0  # 0 asks for no session or for a new one
    session_epoch: Annotated[int32, Since(7), IGNORABLE] = -1  # -1 no session, 0 a full fetch that opens one
    topics: list[FetchTopic] = field(default_factory=list)
    forgotten_topics_data: Annotated[list[ForgottenTopic], Since(7)] = field(default_factory=list)
    rack_id: Annotated[str, Since(11), IGNORABLE] = ""


@struct
class EpochEndOffset:
    epoch: int32 = -1
    end_offset: int64 = -1  # where that epoch ends, -1 if it is not known


@struct
class LeaderIdAndEpoch:
    leader_id: int32 = -1
    leader_epoch: int32 = -1


@struct
class SnapshotId:
    end_offset: int64 = -1
    epoch: int32 = -1


@struct
class AbortedTransaction:
    producer_id: int64 = 0
    first_offset: int64 = 0


@struct
class PartitionData:
    partition_index: int32 = 0
    error_code: int16 = 0
    high_watermark: int64 = 0
    last_stable_offset: int64 = -1
    log_start_offset: Annotated[int64, Since(5), IGNORABLE] = -1
    # the largest epoch both logs may share, with its end (KIP-595)
    diverging_epoch: Annotated[EpochEndOffset | None, Since(12), Tag(0), OMITTED_IS_NONE] = None
    current_leader: Annotated[LeaderIdAndEpoch | None, Since(12), Tag(1), OMITTED_IS_NONE] = None
    # the follower must load this snapshot first (KIP-630)
    snapshot_id: Annotated[SnapshotId | None, Since(12), Tag(2), OMITTED_IS_NONE] = None
    # null for read_uncommitted
    aborted_transactions: list[AbortedTransaction] | None = field(default_factory=list)
    # a replica in the rack of the consumer (KIP-392)
    preferred_read_replica: Annotated[int32, Since(11)] = -1
    records: records_chunks | None = None


@struct
class FetchableTopicResponse:
    topic: Annotated[str, Until(12), IGNORABLE] = ""
    topic_id: Annotated[uuid, Since(13), IGNORABLE] = NO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


@struct
class NodeEndpoint:
    node_id: int32 = 0
    host: str = ""
    port: int32 = 0
    rack: str | None = None


@message(api_key=1, versions=range(4, 19), flexible_from=12)
class FetchResponse:
    throttle_time_ms: int32 = 0
    error_code: Annotated[int16, Since(7), IGNORABLE] = 0  # errors of the session
    session_id: Annotated[int32, Since(7)] = 0
    responses: list[FetchableTopicResponse] = field(default_factory=list)
    node_endpoints: Annotated[list[NodeEndpoint], Since(16), Tag(0)] = field(default_factory=list)
