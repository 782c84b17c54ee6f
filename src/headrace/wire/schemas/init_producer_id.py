"""InitProducerId (22), v0-6: get a producer id and epoch, fencing older users of a transactional id.

v2 flexible, v3 bumps the epoch of an id the producer already has (KIP-360), v4 and v5 promise newer errors,
v6 two-phase commit (KIP-939), not advertised as stable.
"""

from __future__ import annotations

from typing import Annotated, Final

from headrace.wire.notation import Since, int16, int32, int64, message

PRODUCER_FENCED_SINCE: Final = 4  # KIP-588
TWO_PHASE_COMMIT_SINCE: Final = 6  # KIP-939


@message(api_key=22, versions=range(7), flexible_from=2)
class InitProducerIdRequest:
    transactional_id: str | None = ""
    transaction_timeout_ms: int32 = 0
    producer_id: Annotated[int64, Since(3)] = -1  # -1, or the id whose epoch is to be bumped (KIP-360)
    producer_epoch: Annotated[int16, Since(3)] = -1
    # two-phase commit: the transaction never times out (KIP-939)
    enable_2pc: Annotated[bool, Since(6)] = False
    keep_prepared_txn: Annotated[bool, Since(6)] = False  # do not abort what is prepared (KIP-939)


@message(api_key=22, versions=range(7), flexible_from=2)
class InitProducerIdResponse:
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id: int64 = -1
    producer_epoch: int16 = 0
    ongoing_txn_producer_id: Annotated[int64, Since(6)] = -1
    ongoing_txn_producer_epoch: Annotated[int16, Since(6)] = -1
