"""SaslAuthenticate (36), v0-2: one step of a SASL exchange.

v1 tells how long the session lasts (KIP-368), v2 flexible.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import IGNORABLE, Since, int16, int64, message


@message(api_key=36, versions=range(3), flexible_from=2)
class SaslAuthenticateRequest:
    auth_bytes: bytes = field(default=b"", repr=False)


@message(api_key=36, versions=range(3), flexible_from=2)
class SaslAuthenticateResponse:
    error_code: int16 = 0
    error_message: str | None = ""
    auth_bytes: bytes = field(default=b"", repr=False)
    session_lifetime_ms: Annotated[int64, Since(1), IGNORABLE] = 0  # 0 for a session without end (KIP-368)
