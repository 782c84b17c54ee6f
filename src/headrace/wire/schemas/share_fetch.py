"""ShareFetch (78), v1-2: acquire records of a share group, acknowledging earlier ones on the way.

KIP-932. v1 bounds the records and the batch size, v2 the mode of acquiring (KIP-1206) and renewals of locks
(KIP-1222).
"""

from __future__ import annotations

from dataclasses import field
from enum import IntEnum
from typing import Annotated

from headrace.wire.notation import (
    IGNORABLE,
    NO_UUID,
    Since,
    int8,
    int16,
    int32,
    int64,
    message,
    records_chunks,
    struct,
    uuid,
)


class AcknowledgeType(IntEnum):
    """What shall become of a record."""

    GAP = 0
    """There is none at this offset: it was compacted away, or is a transaction's marker."""
    ACCEPT = 1
    """It is done."""
    RELEASE = 2
    """It was not done: give it to somebody again, up to the delivery limit."""
    REJECT = 3
    """It cannot be done: give it to nobody again."""
    RENEW = 4
    """It is still being worked on: hold it for another while (KIP-1222)."""


@struct
class AcknowledgementBatch:
    first_offset: int64 = 0
    last_offset: int64 = 0
    # AcknowledgeType: one per record, or a single one for all
    acknowledge_types: list[int8] = field(default_factory=list)


@struct
class FetchPartition:
    partition_index: int32 = 0
    acknowledgement_batches: list[AcknowledgementBatch] = field(default_factory=list)


@struct
class FetchTopic:
    topic_id: uuid = NO_UUID
    partitions: list[FetchPartition] = field(default_factory=list)


@struct
class ForgottenTopic:
    topic_id: uuid = NO_UUID
    partitions: list[int32] = field(default_factory=list)


@message(api_key=78, versions=range(1, 3), flexible_from=0)
class ShareFetchRequest:
    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: int32 = 0  # 0 opens a session, -1 closes it
    max_wait_ms: int32 = 0
    min_bytes: int32 = 0
    max_bytes: int32 = 2**31 - 1
    max_records: int32 = 0
    batch_size: int32 = 0
    share_acquire_mode: Annotated[int8, Since(2), IGNORABLE] = 0
    is_renew_ack: Annotated[bool, Since(2)] = False
    topics: list[FetchTopic] = field(default_factory=list)
    forgotten_topics_data: list[ForgottenTopic] = field(default_factory=list)


@struct
class LeaderIdAndEpoch:
    leader_id: int32 = 0
    leader_epoch: int32 = 0


@struct
class AcquiredRecords:
    first_offset: int64 = 0
    last_offset: int64 = 0
    delivery_count: int16 = 0


@struct
class PartitionData:
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    acknowledge_error_code: int16 = 0
    acknowledge_error_message: str | None = None
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch)
    records: records_chunks = b""
    acquired_records: list[AcquiredRecords] = field(default_factory=list)


@struct
class ShareFetchableTopicResponse:
    topic_id: uuid = NO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


@struct
class NodeEndpoint:
    node_id: int32 = 0
    host: str = ""
    port: int32 = 0
    rack: str | None = None


@message(api_key=78, versions=range(1, 3), flexible_from=0)
class ShareFetchResponse:
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: int32 = 0
    responses: list[ShareFetchableTopicResponse] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)
