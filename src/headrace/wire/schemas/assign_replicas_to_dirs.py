"""AssignReplicasToDirs (73), v0: a broker reports in which directory its replicas live.

KIP-858.
"""

from __future__ import annotations

from dataclasses import field

from headrace.wire.notation import NO_UUID, int16, int32, int64, message, struct, uuid


@struct
class RequestPartitionData:
    partition_index: int32 = 0


@struct
class RequestTopicData:
    topic_id: uuid = NO_UUID
    partitions: list[RequestPartitionData] = field(default_factory=list)


@struct
class RequestDirectoryData:
    id: uuid = NO_UUID
    topics: list[RequestTopicData] = field(default_factory=list)


@message(api_key=73, versions=range(1), flexible_from=0)
class AssignReplicasToDirsRequest:
    broker_id: int32 = 0
    broker_epoch: int64 = -1
    directories: list[RequestDirectoryData] = field(default_factory=list)


@struct
class ResponsePartitionData:
    partition_index: int32 = 0
    error_code: int16 = 0


@struct
class ResponseTopicData:
    topic_id: uuid = NO_UUID
    partitions: list[ResponsePartitionData] = field(default_factory=list)


@struct
class ResponseDirectoryData:
    id: uuid = NO_UUID
    topics: list[ResponseTopicData] = field(default_factory=list)


@message(api_key=73, versions=range(1), flexible_from=0)
class AssignReplicasToDirsResponse:
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    directories: list[ResponseDirectoryData] = field(default_factory=list)
