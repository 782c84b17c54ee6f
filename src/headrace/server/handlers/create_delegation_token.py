"""CreateDelegationToken (38), v1-v3: a token that stands for its owner (KIP-48; v3: of another, KIP-373).

Checks, in order: is the requester known, and not by a token (DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)? may it
make tokens of that owner (DELEGATION_TOKEN_AUTHORIZATION_FAILED)? are all renewers users
(INVALID_PRINCIPAL_TYPE)? Then the controller decides.
"""

from __future__ import annotations

from typing import Any, Final

from headrace.base.error_codes import ErrorCode
from headrace.base.futures import then
from headrace.controller.delegation_token_control import USER, owner_of, refused_creation
from headrace.server.authorizer import Operation, Resource, allows
from headrace.server.context import RequestContext
from headrace.server.delegation_tokens import ask_controller, may_ask
from headrace.wire.schemas.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

REQUESTER_SINCE: Final = 3  # KIP-373


def handle(context: RequestContext, request: CreateDelegationTokenRequest) -> Any:
    requester = context.peer.principal
    code = _refusal(context, request)
    if code is not None:
        return _told(context, refused_creation(code, requester, request))
    made = ask_controller(context, request)
    return then(made, lambda response: _told(context, response), loop=context.parts.loop)


def _told(context: RequestContext, response: CreateDelegationTokenResponse) -> CreateDelegationTokenResponse:
    """Who asked for it is told from v3 on."""
    if context.api_version < REQUESTER_SINCE:
        response.token_requester_principal_type = response.token_requester_principal_name = ""
    return response


def _refusal(context: RequestContext, request: CreateDelegationTokenRequest) -> ErrorCode | None:
    owner = owner_of(context.peer.principal, request)
    if not may_ask(context):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    if owner != context.peer.principal and not allows(context, Operation.CREATE_TOKENS, Resource.USER, owner):
        return ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    if any(each.principal_type != USER for each in request.renewers):
        return ErrorCode.INVALID_PRINCIPAL_TYPE
    return None
