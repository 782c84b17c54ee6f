"""Records of `__consumer_offsets` for groups of the KIP-848 protocol.

A group's state is spread over many small records: its epoch, each member as it described itself, the
assignment aimed at and the one each member has reached.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import NO_UUID, Tag, int8, int32, int64, message, struct, uuid


@message(api_key=3, versions=range(1))
class ConsumerGroupMetadataKey:
    group_id: str = ""


@message(api_key=3, versions=range(1), flexible_from=0)
class ConsumerGroupMetadataValue:
    epoch: int32 = 0
    # of the topics subscribed to: a change starts a rebalance (KIP-1101)
    metadata_hash: Annotated[int64, Tag(0)] = 0


@message(api_key=4, versions=range(1))
class ConsumerGroupPartitionMetadataKey:
    group_id: str = ""


@struct
class PartitionMetadata:
    partition: int32 = 0
    racks: list[str] = field(default_factory=list)


@struct
class TopicMetadata:
    topic_id: uuid = NO_UUID
    topic_name: str = ""
    num_partitions: int32 = 0
    partition_metadata: list[PartitionMetadata] = field(default_factory=list)


@message(api_key=4, versions=range(1), flexible_from=0)
class ConsumerGroupPartitionMetadataValue:
    topics: list[TopicMetadata] = field(default_factory=list)


@message(api_key=5, versions=range(1))
class ConsumerGroupMemberMetadataKey:
    group_id: str = ""
    member_id: str = ""


@struct
class ClassicProtocol:
    name: str = ""
    metadata: bytes = b""


@struct
class ClassicMemberMetadata:
    session_timeout_ms: int32 = 0
    supported_protocols: list[ClassicProtocol] = field(default_factory=list)


@message(api_key=5, versions=range(1), flexible_from=0)
class ConsumerGroupMemberMetadataValue:
    instance_id: str | None = ""
    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)
    subscribed_topic_regex: str | None = ""
    rebalance_timeout_ms: int32 = -1
    server_assignor: str | None = ""
    # null for members of the new protocol: Kafka writes that null out, it is not the default
    classic_member_metadata: Annotated[ClassicMemberMetadata | None, Tag(0)] = field(
        default_factory=ClassicMemberMetadata
    )


@message(api_key=6, versions=range(1))
class ConsumerGroupTargetAssignmentMetadataKey:
    group_id: str = ""


@message(api_key=6, versions=range(1), flexible_from=0)
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: int32 = 0
    assignment_timestamp: Annotated[int64, Tag(0)] = 0


@message(api_key=7, versions=range(1))
class ConsumerGroupTargetAssignmentMemberKey:
    group_id: str = ""
    member_id: str = ""


@struct
class TopicPartition:
    topic_id: uuid = NO_UUID
    partitions: list[int32] = field(default_factory=list)


@message(api_key=7, versions=range(1), flexible_from=0)
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: list[TopicPartition] = field(default_factory=list)


@message(api_key=8, versions=range(1))
class ConsumerGroupCurrentMemberAssignmentKey:
    group_id: str = ""
    member_id: str = ""


@struct
class TopicPartitions:
    topic_id: uuid = NO_UUID
    partitions: list[int32] = field(default_factory=list)
    assignment_epochs: Annotated[list[int32] | None, Tag(0)] = field(default_factory=list)


@message(api_key=8, versions=range(1), flexible_from=0)
class ConsumerGroupCurrentMemberAssignmentValue:
    member_epoch: int32 = 0
    previous_member_epoch: int32 = 0
    state: int8 = 0
    assigned_partitions: list[TopicPartitions] = field(default_factory=list)
    partitions_pending_revocation: list[TopicPartitions] = field(default_factory=list)


@message(api_key=16, versions=range(1))
class ConsumerGroupRegularExpressionKey:
    group_id: str = ""
    regular_expression: str = ""


@message(api_key=16, versions=range(1), flexible_from=0)
class ConsumerGroupRegularExpressionValue:
    topics: list[str] = field(default_factory=list)
    version: int64 = 0
    timestamp: int64 = 0
