"""AllocateProducerIds (67), v0: a broker asks for a block of producer ids (KIP-730)."""

from asyncio import Future

from headrace.server.context import RequestContext
from headrace.server.own_controller import own_controller
from headrace.wire.schemas.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)


def handle(
    context: RequestContext, request: AllocateProducerIdsRequest
) -> Future[AllocateProducerIdsResponse]:
    return own_controller(context).allocate_producer_ids(request)
