"""CreateTopics (19), v2-7: make topics.

v4 takes the broker's default for partitions and replicas (-1, KIP-464), v5 flexible, with the topic's
configuration in the reply (KIP-525), v6 may answer with a quota error (KIP-599), v7 gives the new topic's id.

Each topic succeeds or fails by itself. Checks, in order: too many partitions in one request
(POLICY_VIOLATION for all)? named twice? name valid, free, and no collision of . and _? settings valid?
partitions and replicas, given or placed? Answered when the topics are committed and the node that was asked
serves its part of them. See `controller/new_topics.py`.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import IGNORABLE, NO_UUID, Since, Tag, int8, int16, int32, message, struct, uuid


@struct
class CreatableReplicaAssignment:
    partition_index: int32 = 0
    broker_ids: list[int32] = field(default_factory=list)


@struct
class CreatableTopicConfig:
    name: str = ""
    value: str | None = ""


@struct
class CreatableTopic:
    name: str = ""
    num_partitions: int32 = 0  # -1 takes the default of the cluster
    replication_factor: int16 = 0  # -1 takes the default of the cluster
    # if given, both of the above must be -1
    assignments: list[CreatableReplicaAssignment] = field(default_factory=list)
    configs: list[CreatableTopicConfig] = field(default_factory=list)


@message(api_key=19, versions=range(2, 8), flexible_from=5)
class CreateTopicsRequest:
    topics: list[CreatableTopic] = field(default_factory=list)
    timeout_ms: int32 = 60000
    validate_only: bool = False


@struct
class CreatableTopicConfigs:
    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: int8 = -1
    is_sensitive: bool = False


@struct
class CreatableTopicResult:
    name: str = ""
    topic_id: Annotated[uuid, Since(7), IGNORABLE] = NO_UUID
    error_code: int16 = 0
    error_message: str | None = ""
    # set when the caller may not see the configuration
    topic_config_error_code: Annotated[int16, Since(5), Tag(0), IGNORABLE] = 0
    num_partitions: Annotated[int32, Since(5), IGNORABLE] = -1
    replication_factor: Annotated[int16, Since(5), IGNORABLE] = -1
    configs: Annotated[list[CreatableTopicConfigs] | None, Since(5), IGNORABLE] = field(default_factory=list)


@message(api_key=19, versions=range(2, 8), flexible_from=5)
class CreateTopicsResponse:
    throttle_time_ms: int32 = 0
    topics: list[CreatableTopicResult] = field(default_factory=list)
