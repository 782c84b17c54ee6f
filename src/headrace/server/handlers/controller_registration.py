"""ControllerRegistration (70), v0: a controller tells where it listens and what it can run (KIP-919)."""

from asyncio import Future

from headrace.server.context import RequestContext
from headrace.server.own_controller import own_controller
from headrace.wire.schemas.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)


def handle(
    context: RequestContext, request: ControllerRegistrationRequest
) -> Future[ControllerRegistrationResponse]:
    return own_controller(context).register_controller(request)
