"""TxnOffsetCommit (28), v0-6: commit offsets within a transaction.

v2 leader epochs, v3 flexible, with the member's identity so that a zombie is refused (KIP-447), v5 without
an AddOffsetsToTxn before it (KIP-890), v6 topics by id (KIP-1319).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from headrace.wire.notation import (
    IGNORABLE,
    NO_UUID,
    Since,
    Until,
    int16,
    int32,
    int64,
    message,
    struct,
    uuid,
)

TRANSACTION_ABORTABLE_SINCE: Final = 4  # KIP-890
TOPIC_ID_SINCE: Final = 6  # KIP-1319
TRANSACTION_V2_SINCE: Final = 5  # the group joins the transaction without AddOffsetsToTxn (KIP-890)


@struct
class TxnOffsetCommitRequestPartition:
    partition_index: int32 = 0
    committed_offset: int64 = 0
    committed_leader_epoch: Annotated[int32, Since(2), IGNORABLE] = -1
    committed_metadata: str | None = ""


@struct
class TxnOffsetCommitRequestTopic:
    name: Annotated[str, Until(5), IGNORABLE] = ""
    topic_id: Annotated[uuid, Since(6), IGNORABLE] = NO_UUID
    partitions: list[TxnOffsetCommitRequestPartition] = field(default_factory=list)


@message(api_key=28, versions=range(7), flexible_from=3)
class TxnOffsetCommitRequest:
    transactional_id: str = ""
    group_id: str = ""
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    generation_id: Annotated[int32, Since(3)] = -1
    member_id: Annotated[str, Since(3)] = ""
    group_instance_id: Annotated[str | None, Since(3)] = None
    topics: list[TxnOffsetCommitRequestTopic] = field(default_factory=list)


@struct
class TxnOffsetCommitResponsePartition:
    partition_index: int32 = 0
    error_code: int16 = 0


@struct
class TxnOffsetCommitResponseTopic:
    name: Annotated[str, Until(5), IGNORABLE] = ""
    topic_id: Annotated[uuid, Since(6), IGNORABLE] = NO_UUID
    partitions: list[TxnOffsetCommitResponsePartition] = field(default_factory=list)


@message(api_key=28, versions=range(7), flexible_from=3)
class TxnOffsetCommitResponse:
    throttle_time_ms: int32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = field(default_factory=list)
