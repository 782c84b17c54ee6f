"""Records of `__remote_log_metadata`: which segments the remote store holds, and in which state (KIP-405)."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import NO_UUID, Tag, int8, int32, int64, message, struct, uuid


@struct
class TopicIdPartitionEntry:
    name: str = ""
    id: uuid = NO_UUID
    partition: int32 = 0


@struct
class RemoteLogSegmentIdEntry:
    topic_id_partition: TopicIdPartitionEntry = field(default_factory=TopicIdPartitionEntry)
    id: uuid = NO_UUID


@struct
class SegmentLeaderEpochEntry:
    leader_epoch: int32 = 0
    offset: int64 = 0


@message(api_key=0, versions=range(1), flexible_from=0)
class RemoteLogSegmentMetadataRecord:
    remote_log_segment_id: RemoteLogSegmentIdEntry = field(default_factory=RemoteLogSegmentIdEntry)
    start_offset: int64 = 0
    end_offset: int64 = 0
    broker_id: int32 = 0
    max_timestamp_ms: int64 = 0
    event_timestamp_ms: int64 = 0
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = field(default_factory=list)
    segment_size_in_bytes: int32 = 0
    custom_metadata: bytes | None = None
    remote_log_segment_state: int8 = 0  # 0 copy started, 1 copied, 2 delete started, 3 deleted
    txn_index_empty: Annotated[bool, Tag(0)] = False


@message(api_key=1, versions=range(1), flexible_from=0)
class RemoteLogSegmentMetadataUpdateRecord:
    remote_log_segment_id: RemoteLogSegmentIdEntry = field(default_factory=RemoteLogSegmentIdEntry)
    broker_id: int32 = 0
    event_timestamp_ms: int64 = 0
    custom_metadata: bytes | None = None
    remote_log_segment_state: int8 = 0  # 0 copy started, 1 copied, 2 delete started, 3 deleted


@message(api_key=2, versions=range(1), flexible_from=0)
class RemotePartitionDeleteMetadataRecord:
    topic_id_partition: TopicIdPartitionEntry = field(default_factory=TopicIdPartitionEntry)
    broker_id: int32 = 0
    event_timestamp_ms: int64 = 0
    remote_partition_delete_state: int8 = 0  # 0 marked, 1 started, 2 finished


@message(api_key=3, versions=range(1), flexible_from=0)
class RemoteLogSegmentMetadataSnapshotRecord:
    segment_id: uuid = NO_UUID
    start_offset: int64 = 0
    end_offset: int64 = 0
    broker_id: int32 = 0
    max_timestamp_ms: int64 = 0
    event_timestamp_ms: int64 = 0
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = field(default_factory=list)
    segment_size_in_bytes: int32 = 0
    custom_metadata: bytes | None = None
    remote_log_segment_state: int8 = 0
    txn_index_empty: Annotated[bool, Tag(0)] = False
