"""InitializeShareGroupState (83), v0: begin the state of share partitions (KIP-932).

Between brokers: served by the share coordinator, answered once it is replicated.
A state epoch below the one that is known is fenced.
Checks, in order, for each partition: group, topic and partition named? coordinator here? topic known? epochs?
"""

from asyncio import Future

from headrace.base.futures import completer
from headrace.server.context import RequestContext
from headrace.wire.schemas.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
)


def handle(
    context: RequestContext, request: InitializeShareGroupStateRequest
) -> Future[InitializeShareGroupStateResponse]:
    answer: Future[InitializeShareGroupStateResponse] = context.parts.loop.create_future()
    context.parts.share_groups.coordinator.ask(request, completer(answer))
    return answer
