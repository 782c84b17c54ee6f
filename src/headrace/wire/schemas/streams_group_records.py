"""Records of `__consumer_offsets` for streams groups (KIP-1071): members, topology and tasks."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import Tag, int8, int16, int32, int64, message, struct, uint16


@message(api_key=17, versions=range(1))
class StreamsGroupMetadataKey:
    group_id: str = ""


@struct
class LastAssignmentConfig:
    key: str = ""
    value: str = ""


@message(api_key=17, versions=range(1), flexible_from=0)
class StreamsGroupMetadataValue:
    epoch: int32 = 0
    metadata_hash: int64 = 0
    validated_topology_epoch: Annotated[int32, Tag(0)] = -1
    last_assignment_configs: Annotated[list[LastAssignmentConfig] | None, Tag(1)] = field(
        default_factory=list
    )


@message(api_key=19, versions=range(1))
class StreamsGroupMemberMetadataKey:
    group_id: str = ""
    member_id: str = ""


@struct
class Endpoint:
    host: str = ""
    port: uint16 = 0


@struct
class KeyValue:
    key: str = ""
    value: str = ""


@message(api_key=19, versions=range(1), flexible_from=0)
class StreamsGroupMemberMetadataValue:
    instance_id: str | None = ""
    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int32 = -1
    topology_epoch: int32 = 0
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] = field(default_factory=list)


@message(api_key=20, versions=range(1))
class StreamsGroupTargetAssignmentMetadataKey:
    group_id: str = ""


@message(api_key=20, versions=range(1), flexible_from=0)
class StreamsGroupTargetAssignmentMetadataValue:
    assignment_epoch: int32 = 0
    assignment_timestamp: Annotated[int64, Tag(0)] = 0


@message(api_key=21, versions=range(1))
class StreamsGroupTargetAssignmentMemberKey:
    group_id: str = ""
    member_id: str = ""


@struct
class StreamsGroupTargetAssignmentMemberTaskIds:
    subtopology_id: str = ""
    partitions: list[int32] = field(default_factory=list)


@message(api_key=21, versions=range(1), flexible_from=0)
class StreamsGroupTargetAssignmentMemberValue:
    active_tasks: list[StreamsGroupTargetAssignmentMemberTaskIds] = field(default_factory=list)
    standby_tasks: list[StreamsGroupTargetAssignmentMemberTaskIds] = field(default_factory=list)
    warmup_tasks: list[StreamsGroupTargetAssignmentMemberTaskIds] = field(default_factory=list)


@message(api_key=22, versions=range(1))
class StreamsGroupCurrentMemberAssignmentKey:
    group_id: str = ""
    member_id: str = ""


@struct
class StreamsGroupCurrentMemberAssignmentTaskIds:
    subtopology_id: str = ""
    partitions: list[int32] = field(default_factory=list)
    assignment_epochs: Annotated[list[int32] | None, Tag(0)] = field(default_factory=list)


@message(api_key=22, versions=range(1), flexible_from=0)
class StreamsGroupCurrentMemberAssignmentValue:
    member_epoch: int32 = 0
    previous_member_epoch: int32 = 0
    state: int8 = 0
    active_tasks: list[StreamsGroupCurrentMemberAssignmentTaskIds] = field(default_factory=list)
    standby_tasks: list[StreamsGroupCurrentMemberAssignmentTaskIds] = field(default_factory=list)
    warmup_tasks: list[StreamsGroupCurrentMemberAssignmentTaskIds] = field(default_factory=list)
    active_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentTaskIds] = field(
        default_factory=list
    )
    standby_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentTaskIds] = field(
        default_factory=list
    )
    warmup_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentTaskIds] = field(
        default_factory=list
    )


@message(api_key=23, versions=range(1))
class StreamsGroupTopologyKey:
    group_id: str = ""


@struct
class TopicConfig:
    key: str = ""
    value: str = ""


@struct
class TopicInfo:
    name: str = ""
    partitions: int32 = 0
    replication_factor: int16 = 0
    topic_configs: list[TopicConfig] = field(default_factory=list)


@struct
class CopartitionGroup:
    source_topics: list[int16] = field(default_factory=list)
    source_topic_regex: list[int16] = field(default_factory=list)
    repartition_source_topics: list[int16] = field(default_factory=list)


@struct
class Subtopology:
    subtopology_id: str = ""
    source_topics: list[str] = field(default_factory=list)
    source_topic_regex: list[str] = field(default_factory=list)
    state_changelog_topics: list[TopicInfo] = field(default_factory=list)
    repartition_sink_topics: list[str] = field(default_factory=list)
    repartition_source_topics: list[TopicInfo] = field(default_factory=list)
    copartition_groups: list[CopartitionGroup] = field(default_factory=list)


@message(api_key=23, versions=range(1), flexible_from=0)
class StreamsGroupTopologyValue:
    epoch: int32 = 0
    subtopologies: list[Subtopology] = field(default_factory=list)
