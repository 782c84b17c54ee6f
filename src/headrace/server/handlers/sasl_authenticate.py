"""SaslAuthenticate (36), v0-v2: one step of a SASL exchange.

SASL_AUTHENTICATION_FAILED, after a pause and with the end of the connection, where the client could not show
who it is. From v1 on the last reply tells how long the session lasts (KIP-368). ILLEGAL_SASL_STATE on a
listener without SASL, where everyone who is connected is let in already, and out of turn.
"""

from __future__ import annotations

from typing import Any

from headrace.base.error_codes import ErrorCode
from headrace.server.context import RequestContext
from headrace.wire.schemas.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


def handle(context: RequestContext, request: SaslAuthenticateRequest) -> Any:
    sasl = context.peer.sasl
    if sasl is None:
        return SaslAuthenticateResponse(
            ErrorCode.ILLEGAL_SASL_STATE,
            f"listener {context.peer.listener} has no SASL: nobody is asked who they are",
        )
    return sasl.authenticate(bytes(request.auth_bytes))
