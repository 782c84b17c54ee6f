"""SaslHandshake (17), v0-v1: the client names the SASL mechanism it will use.

Answers with the mechanisms the listener offers; UNSUPPORTED_SASL_MECHANISM where the named one is not among
them. ILLEGAL_SASL_STATE on a listener without SASL, or once a client is authenticated and the exchange is
over.
"""

from __future__ import annotations

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.server.context import RequestContext
from headrace.wire.schemas.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Begin the exchange with a mechanism."""
    sasl = context.connection.sasl
    if sasl is None:
        return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)
    try:
        sasl.begin(request.mechanism)
    except ApiError as error:
        return SaslHandshakeResponse(error.code, list(sasl.mechanisms))
    return SaslHandshakeResponse(ErrorCode.NONE, list(sasl.mechanisms))
