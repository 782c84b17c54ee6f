"""CreateDelegationToken (38), v1-3: make a delegation token.

v2 flexible, v3 on behalf of another principal (KIP-373).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import Since, int16, int32, int64, message, struct


@struct
class CreatableRenewers:
    principal_type: str = ""
    principal_name: str = ""


@message(api_key=38, versions=range(1, 4), flexible_from=2)
class CreateDelegationTokenRequest:
    owner_principal_type: Annotated[str | None, Since(3)] = ""
    owner_principal_name: Annotated[str | None, Since(3)] = ""
    renewers: list[CreatableRenewers] = field(default_factory=list)
    max_lifetime_ms: int64 = 0


@message(api_key=38, versions=range(1, 4), flexible_from=2)
class CreateDelegationTokenResponse:
    error_code: int16 = 0
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: Annotated[str, Since(3)] = ""
    token_requester_principal_name: Annotated[str, Since(3)] = ""
    issue_timestamp_ms: int64 = 0
    expiry_timestamp_ms: int64 = 0
    max_timestamp_ms: int64 = 0
    token_id: str = ""
    hmac: bytes = field(default=b"", repr=False)
    throttle_time_ms: int32 = 0
