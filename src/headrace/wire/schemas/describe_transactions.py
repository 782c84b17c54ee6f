"""DescribeTransactions (65), v0: state of transactional ids.

KIP-664.
"""

from __future__ import annotations

from dataclasses import field

from headrace.wire.notation import int16, int32, int64, message, struct


@message(api_key=65, versions=range(1), flexible_from=0)
class DescribeTransactionsRequest:
    transactional_ids: list[str] = field(default_factory=list)


@struct
class TopicData:
    topic: str = ""
    partitions: list[int32] = field(default_factory=list)


@struct
class TransactionState:
    error_code: int16 = 0
    transactional_id: str = ""
    transaction_state: str = ""
    transaction_timeout_ms: int32 = 0
    transaction_start_time_ms: int64 = 0
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    topics: list[TopicData] = field(default_factory=list)


@message(api_key=65, versions=range(1), flexible_from=0)
class DescribeTransactionsResponse:
    throttle_time_ms: int32 = 0
    transaction_states: list[TransactionState] = field(default_factory=list)
