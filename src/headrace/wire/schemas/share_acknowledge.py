"""ShareAcknowledge (79), v1-2: acknowledge records of a share group.

KIP-932. Types: 0 gap, 1 accept, 2 release, 3 reject, 4 renew (v2).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import IGNORABLE, NO_UUID, Since, int8, int16, int32, int64, message, struct, uuid


@struct
class AcknowledgementBatch:
    first_offset: int64 = 0
    last_offset: int64 = 0
    # one per record, or a single one for all: 0 gap, 1 accept, 2 release, 3 reject, 4 renew
    acknowledge_types: list[int8] = field(default_factory=list)


@struct
class AcknowledgePartition:
    partition_index: int32 = 0
    acknowledgement_batches: list[AcknowledgementBatch] = field(default_factory=list)


@struct
class AcknowledgeTopic:
    topic_id: uuid = NO_UUID
    partitions: list[AcknowledgePartition] = field(default_factory=list)


@message(api_key=79, versions=range(1, 3), flexible_from=0)
class ShareAcknowledgeRequest:
    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: int32 = 0  # 0 opens a session, -1 closes it
    is_renew_ack: Annotated[bool, Since(2)] = False
    topics: list[AcknowledgeTopic] = field(default_factory=list)


@struct
class LeaderIdAndEpoch:
    leader_id: int32 = 0
    leader_epoch: int32 = 0


@struct
class PartitionData:
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch)


@struct
class ShareAcknowledgeTopicResponse:
    topic_id: uuid = NO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


@struct
class NodeEndpoint:
    node_id: int32 = 0
    host: str = ""
    port: int32 = 0
    rack: str | None = None


@message(api_key=79, versions=range(1, 3), flexible_from=0)
class ShareAcknowledgeResponse:
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: Annotated[int32, Since(2), IGNORABLE] = 0
    responses: list[ShareAcknowledgeTopicResponse] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)
