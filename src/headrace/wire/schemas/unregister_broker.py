"""UnregisterBroker (64), v0: remove a broker that is gone for good.

BROKER_ID_NOT_REGISTERED for one nobody knows.
"""

from __future__ import annotations

from headrace.wire.notation import int16, int32, message


@message(api_key=64, versions=range(1), flexible_from=0)
class UnregisterBrokerRequest:
    broker_id: int32 = 0


@message(api_key=64, versions=range(1), flexible_from=0)
class UnregisterBrokerResponse:
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = ""
