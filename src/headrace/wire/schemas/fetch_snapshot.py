"""FetchSnapshot (59), v0-1: read a piece of a metadata snapshot.

KIP-630. v1 the replica's directory and the leader's endpoints (KIP-853). SNAPSHOT_NOT_FOUND where it is gone,
POSITION_OUT_OF_RANGE behind its end, errors of the epoch as in Fetch.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import (
    IGNORABLE,
    NO_UUID,
    OMITTED_IS_NONE,
    Since,
    Tag,
    int16,
    int32,
    int64,
    message,
    records_chunks,
    struct,
    uint16,
    uuid,
)


@struct
class SnapshotId:
    end_offset: int64 = 0
    epoch: int32 = 0


@struct
class RequestPartitionSnapshot:
    partition: int32 = 0
    current_leader_epoch: int32 = 0
    snapshot_id: SnapshotId = field(default_factory=SnapshotId)
    position: int64 = 0
    replica_directory_id: Annotated[uuid, Since(1), Tag(0), IGNORABLE] = NO_UUID


@struct
class RequestTopicSnapshot:
    name: str = ""
    partitions: list[RequestPartitionSnapshot] = field(default_factory=list)


@message(api_key=59, versions=range(2), flexible_from=0)
class FetchSnapshotRequest:
    cluster_id: Annotated[str | None, Tag(0)] = None
    replica_id: int32 = -1
    max_bytes: int32 = 2**31 - 1
    topics: list[RequestTopicSnapshot] = field(default_factory=list)


@struct
class LeaderIdAndEpoch:
    leader_id: int32 = 0
    leader_epoch: int32 = 0


@struct
class ResponsePartitionSnapshot:
    index: int32 = 0
    error_code: int16 = 0
    snapshot_id: SnapshotId = field(default_factory=SnapshotId)
    current_leader: Annotated[LeaderIdAndEpoch | None, Tag(0), OMITTED_IS_NONE] = None
    size: int64 = 0
    position: int64 = 0
    unaligned_records: records_chunks = b""


@struct
class ResponseTopicSnapshot:
    name: str = ""
    partitions: list[ResponsePartitionSnapshot] = field(default_factory=list)


@struct
class NodeEndpoint:
    node_id: int32 = 0
    host: str = ""
    port: uint16 = 0


@message(api_key=59, versions=range(2), flexible_from=0)
class FetchSnapshotResponse:
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    topics: list[ResponseTopicSnapshot] = field(default_factory=list)
    node_endpoints: Annotated[list[NodeEndpoint], Since(1), Tag(0)] = field(default_factory=list)
