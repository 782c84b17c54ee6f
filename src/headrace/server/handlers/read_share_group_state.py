"""ReadShareGroupState (84), v0: the state of share partitions, for the leader that takes them over (KIP-932).

Between brokers: served by the share coordinator, answered once it is replicated.
A leader epoch below the one that is known is fenced; a higher one fences those before it.
Checks, in order, for each partition: group, topic and partition named? coordinator here? topic known? epochs?
"""

from asyncio import Future

from headrace.base.futures import completer
from headrace.server.context import RequestContext
from headrace.wire.schemas.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
)


def handle(
    context: RequestContext, request: ReadShareGroupStateRequest
) -> Future[ReadShareGroupStateResponse]:
    answer: Future[ReadShareGroupStateResponse] = context.parts.loop.create_future()
    context.parts.share_groups.coordinator.ask(request, completer(answer))
    return answer
