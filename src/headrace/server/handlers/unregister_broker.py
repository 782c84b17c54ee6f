"""UnregisterBroker (64), v0: forget a broker that will not come back. BROKER_ID_NOT_REGISTERED for one
nobody knows.
"""

from asyncio import Future

from headrace.server.context import RequestContext
from headrace.wire.schemas.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


def handle(context: RequestContext, request: UnregisterBrokerRequest) -> Future[UnregisterBrokerResponse]:
    return context.controller.unregister_broker(request)
