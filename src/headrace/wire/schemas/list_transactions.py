"""ListTransactions (66), v0-2: transactions this broker coordinates.

KIP-664. v1 filter by duration, v2 by a pattern of the transactional id (KIP-1152).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import Since, int16, int32, int64, message, struct


@message(api_key=66, versions=range(3), flexible_from=0)
class ListTransactionsRequest:
    state_filters: list[str] = field(default_factory=list)
    producer_id_filters: list[int64] = field(default_factory=list)
    duration_filter: Annotated[int64, Since(1)] = -1  # older than this many ms; negative for no filter
    transactional_id_pattern: Annotated[str | None, Since(2)] = None


@struct
class TransactionState:
    transactional_id: str = ""
    producer_id: int64 = 0
    transaction_state: str = ""


@message(api_key=66, versions=range(3), flexible_from=0)
class ListTransactionsResponse:
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    unknown_state_filters: list[str] = field(default_factory=list)
    transaction_states: list[TransactionState] = field(default_factory=list)
