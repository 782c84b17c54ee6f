"""DescribeDelegationToken (41), v1-3: list delegation tokens.

v2 flexible, v3 names who asked for the token (KIP-373).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import Since, int16, int32, int64, message, struct


@struct
class DescribeDelegationTokenOwner:
    principal_type: str = ""
    principal_name: str = ""


@message(api_key=41, versions=range(1, 4), flexible_from=2)
class DescribeDelegationTokenRequest:
    owners: list[DescribeDelegationTokenOwner] | None = field(default_factory=list)


@struct
class DescribedDelegationTokenRenewer:
    principal_type: str = ""
    principal_name: str = ""


@struct
class DescribedDelegationToken:
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: Annotated[str, Since(3)] = ""
    token_requester_principal_name: Annotated[str, Since(3)] = ""
    issue_timestamp: int64 = 0
    expiry_timestamp: int64 = 0
    max_timestamp: int64 = 0
    token_id: str = ""
    hmac: bytes = field(default=b"", repr=False)
    renewers: list[DescribedDelegationTokenRenewer] = field(default_factory=list)


@message(api_key=41, versions=range(1, 4), flexible_from=2)
class DescribeDelegationTokenResponse:
    error_code: int16 = 0
    tokens: list[DescribedDelegationToken] = field(default_factory=list)
    throttle_time_ms: int32 = 0
