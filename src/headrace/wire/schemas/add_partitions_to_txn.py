"""AddPartitionsToTxn (24), v0-5: partitions join a transaction.

Until v3 sent by producers for one transaction; from v4 on by brokers, for many at once, also to verify only
(KIP-890). v3 flexible.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from headrace.wire.notation import IGNORABLE, Since, Until, int16, int32, int64, message, struct

PRODUCER_FENCED_SINCE: Final = 2  # KIP-588
BROKER_SINCE: Final = 4  # several transactions, asked by brokers (KIP-890)


@struct
class AddPartitionsToTxnTopic:
    name: str = ""
    partitions: list[int32] = field(default_factory=list)


@struct
class AddPartitionsToTxnTransaction:
    transactional_id: str = ""
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    verify_only: bool = False  # ask whether they are in the transaction, add nothing (KIP-890)
    topics: list[AddPartitionsToTxnTopic] = field(default_factory=list)


@message(api_key=24, versions=range(6), flexible_from=3)
class AddPartitionsToTxnRequest:
    transactions: Annotated[list[AddPartitionsToTxnTransaction], Since(4)] = field(default_factory=list)
    v3_and_below_transactional_id: Annotated[str, Until(3)] = ""
    v3_and_below_producer_id: Annotated[int64, Until(3)] = 0
    v3_and_below_producer_epoch: Annotated[int16, Until(3)] = 0
    v3_and_below_topics: Annotated[list[AddPartitionsToTxnTopic], Until(3)] = field(default_factory=list)


@struct
class AddPartitionsToTxnPartitionResult:
    partition_index: int32 = 0
    partition_error_code: int16 = 0


@struct
class AddPartitionsToTxnTopicResult:
    name: str = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(default_factory=list)


@struct
class AddPartitionsToTxnResult:
    transactional_id: str = ""
    topic_results: list[AddPartitionsToTxnTopicResult] = field(default_factory=list)


@message(api_key=24, versions=range(6), flexible_from=3)
class AddPartitionsToTxnResponse:
    throttle_time_ms: int32 = 0
    error_code: Annotated[int16, Since(4), IGNORABLE] = 0
    results_by_transaction: Annotated[list[AddPartitionsToTxnResult], Since(4)] = field(default_factory=list)
    results_by_topic_v3_and_below: Annotated[list[AddPartitionsToTxnTopicResult], Until(3)] = field(
        default_factory=list
    )
