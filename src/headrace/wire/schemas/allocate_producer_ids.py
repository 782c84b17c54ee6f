"""AllocateProducerIds (67), v0: a broker takes a block of producer ids from the controller.

KIP-730.
"""

from __future__ import annotations

from headrace.wire.notation import int16, int32, int64, message


@message(api_key=67, versions=range(1), flexible_from=0)
class AllocateProducerIdsRequest:
    broker_id: int32 = 0
    broker_epoch: int64 = -1


@message(api_key=67, versions=range(1), flexible_from=0)
class AllocateProducerIdsResponse:
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id_start: int64 = 0
    producer_id_len: int32 = 0
