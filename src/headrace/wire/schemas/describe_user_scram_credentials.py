"""DescribeUserScramCredentials (50), v0: which SCRAM credentials users have.

KIP-554. Mechanisms and iterations only; secrets never leave.
"""

from __future__ import annotations

from dataclasses import field

from headrace.wire.notation import int8, int16, int32, message, struct


@struct
class UserName:
    name: str = ""


@message(api_key=50, versions=range(1), flexible_from=0)
class DescribeUserScramCredentialsRequest:
    users: list[UserName] | None = field(default_factory=list)


@struct
class CredentialInfo:
    mechanism: int8 = 0
    iterations: int32 = 0


@struct
class DescribeUserScramCredentialsResult:
    user: str = ""
    error_code: int16 = 0
    error_message: str | None = ""
    credential_infos: list[CredentialInfo] = field(default_factory=list)


@message(api_key=50, versions=range(1), flexible_from=0)
class DescribeUserScramCredentialsResponse:
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = ""
    results: list[DescribeUserScramCredentialsResult] = field(default_factory=list)
