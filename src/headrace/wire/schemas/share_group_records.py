"""Records of `__consumer_offsets` for share groups (KIP-932): members, assignments, partitions with state."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import NO_UUID, Tag, int8, int32, int64, message, struct, uuid


@message(api_key=10, versions=range(1))
class ShareGroupMemberMetadataKey:
    group_id: str = ""
    member_id: str = ""


@message(api_key=10, versions=range(1), flexible_from=0)
class ShareGroupMemberMetadataValue:
    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)


@message(api_key=11, versions=range(1))
class ShareGroupMetadataKey:
    group_id: str = ""


@message(api_key=11, versions=range(1), flexible_from=0)
class ShareGroupMetadataValue:
    epoch: int32 = 0
    metadata_hash: int64 = 0


@message(api_key=12, versions=range(1))
class ShareGroupTargetAssignmentMetadataKey:
    group_id: str = ""


@message(api_key=12, versions=range(1), flexible_from=0)
class ShareGroupTargetAssignmentMetadataValue:
    assignment_epoch: int32 = 0
    assignment_timestamp: Annotated[int64, Tag(0)] = 0


@message(api_key=13, versions=range(1))
class ShareGroupTargetAssignmentMemberKey:
    group_id: str = ""
    member_id: str = ""


@struct
class TopicPartition:
    topic_id: uuid = NO_UUID
    partitions: list[int32] = field(default_factory=list)


@message(api_key=13, versions=range(1), flexible_from=0)
class ShareGroupTargetAssignmentMemberValue:
    topic_partitions: list[TopicPartition] = field(default_factory=list)


@message(api_key=14, versions=range(1))
class ShareGroupCurrentMemberAssignmentKey:
    group_id: str = ""
    member_id: str = ""


@struct
class TopicPartitions:
    topic_id: uuid = NO_UUID
    partitions: list[int32] = field(default_factory=list)


@message(api_key=14, versions=range(1), flexible_from=0)
class ShareGroupCurrentMemberAssignmentValue:
    member_epoch: int32 = 0
    previous_member_epoch: int32 = 0
    state: int8 = 0
    assigned_partitions: list[TopicPartitions] = field(default_factory=list)


@message(api_key=15, versions=range(1))
class ShareGroupStatePartitionMetadataKey:
    group_id: str = ""


@struct
class TopicPartitionsInfo:
    topic_id: uuid = NO_UUID
    topic_name: str = ""
    partitions: list[int32] = field(default_factory=list)


@struct
class TopicInfo:
    topic_id: uuid = NO_UUID
    topic_name: str = ""


@message(api_key=15, versions=range(1), flexible_from=0)
class ShareGroupStatePartitionMetadataValue:
    initializing_topics: list[TopicPartitionsInfo] = field(default_factory=list)
    initialized_topics: list[TopicPartitionsInfo] = field(default_factory=list)
    deleting_topics: list[TopicInfo] = field(default_factory=list)
