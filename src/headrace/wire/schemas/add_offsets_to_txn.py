"""AddOffsetsToTxn (25), v0-4: a group's offsets join a transaction.

v3 flexible; v2 and v4 promise newer errors (PRODUCER_FENCED, TRANSACTION_ABORTABLE).
"""

from __future__ import annotations

from typing import Final

from headrace.wire.notation import int16, int32, int64, message

PRODUCER_FENCED_SINCE: Final = 2  # KIP-588


@message(api_key=25, versions=range(5), flexible_from=3)
class AddOffsetsToTxnRequest:
    transactional_id: str = ""
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    group_id: str = ""


@message(api_key=25, versions=range(5), flexible_from=3)
class AddOffsetsToTxnResponse:
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
