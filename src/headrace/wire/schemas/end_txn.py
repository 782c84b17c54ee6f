"""EndTxn (26), v0-5: commit or abort a transaction.

v3 flexible, v5 answers with the producer id and epoch of the next transaction (KIP-890).
"""

from __future__ import annotations

from typing import Annotated, Final

from headrace.wire.notation import IGNORABLE, Since, int16, int32, int64, message

PRODUCER_FENCED_SINCE: Final = 2  # KIP-588
TRANSACTION_V2_SINCE: Final = 5  # the producer's epoch grows with each transaction (KIP-890)


@message(api_key=26, versions=range(6), flexible_from=3)
class EndTxnRequest:
    transactional_id: str = ""
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    committed: bool = False  # False aborts


@message(api_key=26, versions=range(6), flexible_from=3)
class EndTxnResponse:
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id: Annotated[int64, Since(5), IGNORABLE] = -1  # changes when its epochs are used up
    producer_epoch: Annotated[int16, Since(5), IGNORABLE] = -1  # to be used in the next transaction (KIP-890)
