"""AlterUserScramCredentials (51), v0: set or remove SCRAM credentials.

KIP-554. The client salts and hashes; the password itself is never sent.
"""

from __future__ import annotations

from dataclasses import field

from headrace.wire.notation import int8, int16, int32, message, struct


@struct
class ScramCredentialDeletion:
    name: str = ""
    mechanism: int8 = 0


@struct
class ScramCredentialUpsertion:
    name: str = ""
    mechanism: int8 = 0  # 1 SCRAM-SHA-256, 2 SCRAM-SHA-512
    iterations: int32 = 0
    salt: bytes = field(default=b"", repr=False)
    salted_password: bytes = field(default=b"", repr=False)


@message(api_key=51, versions=range(1), flexible_from=0)
class AlterUserScramCredentialsRequest:
    deletions: list[ScramCredentialDeletion] = field(default_factory=list)
    upsertions: list[ScramCredentialUpsertion] = field(default_factory=list)


@struct
class AlterUserScramCredentialsResult:
    user: str = ""
    error_code: int16 = 0
    error_message: str | None = ""


@message(api_key=51, versions=range(1), flexible_from=0)
class AlterUserScramCredentialsResponse:
    throttle_time_ms: int32 = 0
    results: list[AlterUserScramCredentialsResult] = field(default_factory=list)
