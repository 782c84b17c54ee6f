"""AlterReplicaLogDirs (34), v1-2: move replicas between a broker's log directories.

v2 flexible.
"""

from __future__ import annotations

from dataclasses import field

from headrace.wire.notation import int16, int32, message, struct


@struct
class AlterReplicaLogDirTopic:
    name: str = ""
    partitions: list[int32] = field(default_factory=list)


@struct
class AlterReplicaLogDir:
    path: str = ""
    topics: list[AlterReplicaLogDirTopic] = field(default_factory=list)


@message(api_key=34, versions=range(1, 3), flexible_from=2)
class AlterReplicaLogDirsRequest:
    dirs: list[AlterReplicaLogDir] = field(default_factory=list)


@struct
class AlterReplicaLogDirPartitionResult:
    partition_index: int32 = 0
    error_code: int16 = 0


@struct
class AlterReplicaLogDirTopicResult:
    topic_name: str = ""
    partitions: list[AlterReplicaLogDirPartitionResult] = field(default_factory=list)


@message(api_key=34, versions=range(1, 3), flexible_from=2)
class AlterReplicaLogDirsResponse:
    throttle_time_ms: int32 = 0
    results: list[AlterReplicaLogDirTopicResult] = field(default_factory=list)
