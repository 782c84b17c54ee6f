"""Metadata (3), v0-13: who leads which partition, and where the brokers are.

All topics are asked for with an empty list in v0, with null from v1 on. v4 may create topics, v5 offline
replicas, v7 leader epochs, v8 permitted operations (for the cluster only until v10, then DescribeCluster
has them), v9 flexible, v10 topic ids in the reply, v12 also in the request, v13 an error for the whole
reply.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from headrace.wire.notation import (
    IGNORABLE,
    NO_UUID,
    Nullable,
    Since,
    Until,
    int16,
    int32,
    message,
    struct,
    uuid,
)

NULL_IS_ALL_TOPICS_SINCE: Final = 1  # an empty list stood for that before
LISTENER_NOT_FOUND_SINCE: Final = 6
FETCH_BY_TOPIC_ID_SINCE: Final = 12  # KIP-516


@struct
class MetadataRequestTopic:
    topic_id: Annotated[uuid, Since(10), IGNORABLE] = NO_UUID  # answered from v12 on
    name: Annotated[str | None, Nullable(10)] = ""


@message(api_key=3, versions=range(14), flexible_from=9)
class MetadataRequest:
    # v0: empty means all; later: null means all, empty none
    topics: Annotated[list[MetadataRequestTopic] | None, Nullable(1)] = field(default_factory=list)
    allow_auto_topic_creation: Annotated[bool, Since(4)] = True
    include_cluster_authorized_operations: Annotated[bool, Since(8), Until(10)] = False
    include_topic_authorized_operations: Annotated[bool, Since(8)] = False


@struct
class MetadataResponseBroker:
    node_id: int32 = 0
    host: str = ""
    port: int32 = 0
    rack: Annotated[str | None, Since(1), IGNORABLE] = None


@struct
class MetadataResponsePartition:
    error_code: int16 = 0
    partition_index: int32 = 0
    leader_id: int32 = 0
    leader_epoch: Annotated[int32, Since(7), IGNORABLE] = -1
    replica_nodes: list[int32] = field(default_factory=list)
    isr_nodes: list[int32] = field(default_factory=list)
    offline_replicas: Annotated[list[int32], Since(5), IGNORABLE] = field(default_factory=list)


@struct
class MetadataResponseTopic:
    error_code: int16 = 0
    name: Annotated[str | None, Nullable(12)] = ""
    topic_id: Annotated[uuid, Since(10), IGNORABLE] = NO_UUID
    is_internal: Annotated[bool, Since(1), IGNORABLE] = False
    partitions: list[MetadataResponsePartition] = field(default_factory=list)
    # a set of bits; the minimum says it was not asked for
    topic_authorized_operations: Annotated[int32, Since(8)] = -(2**31)


@message(api_key=3, versions=range(14), flexible_from=9)
class MetadataResponse:
    throttle_time_ms: Annotated[int32, Since(3), IGNORABLE] = 0
    brokers: list[MetadataResponseBroker] = field(default_factory=list)
    cluster_id: Annotated[str | None, Since(2), IGNORABLE] = None
    controller_id: Annotated[int32, Since(1), IGNORABLE] = -1
    topics: list[MetadataResponseTopic] = field(default_factory=list)
    # later in DescribeCluster (KIP-700)
    cluster_authorized_operations: Annotated[int32, Since(8), Until(10)] = -(2**31)
    error_code: Annotated[int16, Since(13), IGNORABLE] = 0
