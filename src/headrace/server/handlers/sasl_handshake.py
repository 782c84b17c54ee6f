"""SaslHandshake (17), v0-v1: the client names the SASL mechanism it will use.

Answers with the mechanisms the listener offers; UNSUPPORTED_SASL_MECHANISM, and the end of the connection,
where the named one is not among them. ILLEGAL_SASL_STATE on a listener without SASL, or once a client is
logged in and its session has no end. After v0 the mechanism's tokens come without requests around them, after
v1 in SaslAuthenticate (KIP-152).
"""

from __future__ import annotations

from typing import Any

from headrace.base.error_codes import ErrorCode
from headrace.server.context import RequestContext
from headrace.wire.schemas.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(context: RequestContext, request: SaslHandshakeRequest) -> Any:
    """Begin the exchange with a mechanism."""
    sasl = context.peer.sasl
    if sasl is None:
        return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)
    return sasl.handshake(request.mechanism, is_raw=context.api_version == 0)
