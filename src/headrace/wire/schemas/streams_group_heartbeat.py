"""StreamsGroupHeartbeat (88), v0: join, stay in and leave a streams group.

KIP-1071. The protocol's only request: it also describes the topology. Fields that have not changed since
the last heartbeat are null.
"""

from __future__ import annotations

from dataclasses import field

from headrace.wire.notation import int8, int16, int32, int64, message, struct, uint16


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


@struct
class Topology:
    epoch: int32 = 0
    subtopologies: list[Subtopology] = field(default_factory=list)


@struct
class TaskIds:
    subtopology_id: str = ""
    partitions: list[int32] = field(default_factory=list)


@struct
class Endpoint:
    host: str = ""
    port: uint16 = 0


@struct
class TaskOffset:
    subtopology_id: str = ""
    partition: int32 = 0
    offset: int64 = 0


@message(api_key=88, versions=range(1), flexible_from=0)
class StreamsGroupHeartbeatRequest:
    group_id: str = ""
    member_id: str = ""
    member_epoch: int32 = 0
    endpoint_information_epoch: int32 = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int32 = -1
    topology: Topology | None = None
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    process_id: str | None = None
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] | None = None
    task_offsets: list[TaskOffset] | None = None
    task_end_offsets: list[TaskOffset] | None = None
    shutdown_application: bool = False


@struct
class Status:
    status_code: int8 = 0
    status_detail: str = ""


@struct
class TopicPartition:
    topic: str = ""
    partitions: list[int32] = field(default_factory=list)


@struct
class EndpointToPartitions:
    user_endpoint: Endpoint = field(default_factory=Endpoint)
    active_partitions: list[TopicPartition] = field(default_factory=list)
    standby_partitions: list[TopicPartition] = field(default_factory=list)


@message(api_key=88, versions=range(1), flexible_from=0)
class StreamsGroupHeartbeatResponse:
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    member_id: str = ""
    member_epoch: int32 = 0
    heartbeat_interval_ms: int32 = 0
    acceptable_recovery_lag: int32 = 0
    task_offset_interval_ms: int32 = 0
    status: list[Status] | None = field(default_factory=list)
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    endpoint_information_epoch: int32 = 0
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = None
