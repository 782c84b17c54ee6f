"""DeleteShareGroupState (86), v0: forget share partitions (KIP-932).

Between brokers: served by the share coordinator, answered once it is replicated.
One that is not known is forgotten already.
Checks, in order, for each partition: group, topic and partition named? coordinator here? topic known? epochs?
"""

from asyncio import Future

from headrace.base.futures import completer
from headrace.server.context import RequestContext
from headrace.wire.schemas.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
)


def handle(
    context: RequestContext, request: DeleteShareGroupStateRequest
) -> Future[DeleteShareGroupStateResponse]:
    answer: Future[DeleteShareGroupStateResponse] = context.parts.loop.create_future()
    context.parts.share_groups.coordinator.ask(request, completer(answer))
    return answer
