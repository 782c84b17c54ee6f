"""What the four requests about delegation tokens share: who may ask at all, and the way to the controller.

Whoever asks must be known: by SASL, or by a certificate. Who logged in by a token gets no further one, or a
token would never end. The controller decides with the principal in mind, so a request reaches it with that:
as it is where the active one is in this process, else in an Envelope, from which its own node takes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.controller.delegation_token_control import AskedForToken, TokenRequest
from headrace.server.context import ANONYMOUS

if TYPE_CHECKING:
    from headrace.server.context import RequestContext


def may_ask(context: RequestContext) -> bool:
    """Whether tokens may be asked about on this connection (DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)."""
    peer = context.peer
    if peer.sasl is None:
        return peer.principal != ANONYMOUS
    return not peer.sasl.is_token


def ask_controller(context: RequestContext, request: TokenRequest) -> Any:
    own = context.parts.own_controller
    if own is not None and own.is_active:
        return own.ask(AskedForToken(context.peer.principal, request))
    return context.controller.ask(request, api_version=context.api_version)
