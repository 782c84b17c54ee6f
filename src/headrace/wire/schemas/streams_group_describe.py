"""StreamsGroupDescribe (89), v0: state, topology and tasks of streams groups.

KIP-1071.
"""

from __future__ import annotations

from dataclasses import field

from headrace.wire.notation import int16, int32, int64, message, struct, uint16


@message(api_key=89, versions=range(1), flexible_from=0)
class StreamsGroupDescribeRequest:
    group_ids: list[str] = field(default_factory=list)
    include_authorized_operations: bool = False


@struct
class KeyValue:
    key: str = ""
    value: str = ""


@struct
class TopicInfo:
    name: str = ""
    partitions: int32 = 0
    replication_factor: int16 = 0
    topic_configs: list[KeyValue] = field(default_factory=list)


@struct
class Subtopology:
    subtopology_id: str = ""
    source_topics: list[str] = field(default_factory=list)
    repartition_sink_topics: list[str] = field(default_factory=list)
    state_changelog_topics: list[TopicInfo] = field(default_factory=list)
    repartition_source_topics: list[TopicInfo] = field(default_factory=list)


@struct
class Topology:
    epoch: int32 = 0
    subtopologies: list[Subtopology] | None = None


@struct
class Endpoint:
    host: str = ""
    port: uint16 = 0


@struct
class TaskOffset:
    subtopology_id: str = ""
    partition: int32 = 0
    offset: int64 = 0


@struct
class TaskIds:
    subtopology_id: str = ""
    partitions: list[int32] = field(default_factory=list)


@struct
class Assignment:
    active_tasks: list[TaskIds] = field(default_factory=list)
    standby_tasks: list[TaskIds] = field(default_factory=list)
    warmup_tasks: list[TaskIds] = field(default_factory=list)


@struct
class Member:
    member_id: str = ""
    member_epoch: int32 = 0
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topology_epoch: int32 = 0
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] = field(default_factory=list)
    task_offsets: list[TaskOffset] = field(default_factory=list)
    task_end_offsets: list[TaskOffset] = field(default_factory=list)
    assignment: Assignment = field(default_factory=Assignment)
    target_assignment: Assignment = field(default_factory=Assignment)
    is_classic: bool = False


@struct
class DescribedGroup:
    error_code: int16 = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int32 = 0
    assignment_epoch: int32 = 0
    topology: Topology | None = None
    members: list[Member] = field(default_factory=list)
    authorized_operations: int32 = -(2**31)


@message(api_key=89, versions=range(1), flexible_from=0)
class StreamsGroupDescribeResponse:
    throttle_time_ms: int32 = 0
    groups: list[DescribedGroup] = field(default_factory=list)
