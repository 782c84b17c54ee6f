"""RenewDelegationToken (39), v1-2: give a delegation token more time.

v2 flexible.
"""

from __future__ import annotations

from dataclasses import field

from headrace.wire.notation import int16, int32, int64, message


@message(api_key=39, versions=range(1, 3), flexible_from=2)
class RenewDelegationTokenRequest:
    hmac: bytes = field(default=b"", repr=False)
    renew_period_ms: int64 = 0


@message(api_key=39, versions=range(1, 3), flexible_from=2)
class RenewDelegationTokenResponse:
    error_code: int16 = 0
    expiry_timestamp_ms: int64 = 0
    throttle_time_ms: int32 = 0
