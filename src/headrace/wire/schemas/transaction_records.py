"""Records of `__transaction_state`: one per transactional id, rewritten at every step of its transaction."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import Since, Tag, int8, int16, int32, int64, message, struct


@message(api_key=0, versions=range(1))
class TransactionLogKey:
    transactional_id: str = ""


@struct
class PartitionsSchema:
    topic: str = ""
    partition_ids: list[int32] = field(default_factory=list)


@message(api_key=0, versions=range(2), flexible_from=1)
class TransactionLogValue:
    producer_id: int64 = 0
    # the id before the last roll-over (KIP-890)
    previous_producer_id: Annotated[int64, Since(1), Tag(0)] = -1
    # the id after the roll-over under way (KIP-890)
    next_producer_id: Annotated[int64, Since(1), Tag(1)] = -1
    producer_epoch: int16 = 0
    next_producer_epoch: Annotated[int16, Since(1), Tag(3)] = -1
    transaction_timeout_ms: int32 = 0
    # 0 empty, 1 ongoing, 2/3 prepare commit/abort, 4/5 complete commit/abort, 6 dead, 7 prepare epoch fence
    transaction_status: int8 = 0
    # null unless something is open
    transaction_partitions: list[PartitionsSchema] | None = field(default_factory=list)
    transaction_last_update_timestamp_ms: int64 = 0
    transaction_start_timestamp_ms: int64 = 0
    # the transaction.version the client works by
    client_transaction_version: Annotated[int16, Since(1), Tag(2)] = 0
