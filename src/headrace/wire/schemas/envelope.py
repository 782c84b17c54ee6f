"""Envelope (58), v0: a broker forwards a client's request to the controller.

KIP-590. Carries the request as bytes, with the principal and address it came from.
"""

from __future__ import annotations

from dataclasses import field

from headrace.wire.notation import int16, message


@message(api_key=58, versions=range(1), flexible_from=0)
class EnvelopeRequest:
    # Header and body as the client sent them, which may have secrets.
    request_data: bytes = field(default=b"", repr=False)
    request_principal: bytes | None = b""
    client_host_address: bytes = b""


@message(api_key=58, versions=range(1), flexible_from=0)
class EnvelopeResponse:
    response_data: bytes | None = field(default=None, repr=False)
    error_code: int16 = 0
