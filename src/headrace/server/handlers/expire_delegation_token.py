"""ExpireDelegationToken (40), v1-v2: end a token, or shorten its time.

DELEGATION_TOKEN_REQUEST_NOT_ALLOWED where the requester is not known, or by a token only. The controller
decides: DELEGATION_TOKEN_NOT_FOUND, _OWNER_MISMATCH for who is neither owner nor renewer, _EXPIRED.
"""

from __future__ import annotations

from typing import Any

from headrace.base.error_codes import ErrorCode
from headrace.server.context import RequestContext
from headrace.server.delegation_tokens import ask_controller, may_ask
from headrace.wire.schemas.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)


def handle(context: RequestContext, request: ExpireDelegationTokenRequest) -> Any:
    if not may_ask(context):
        return ExpireDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, -1)
    return ask_controller(context, request)
