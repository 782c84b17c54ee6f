"""WriteShareGroupState (85), v0-v1: what a share partition's leader has to keep (KIP-932).

Between brokers: served by the share coordinator, answered once it is replicated.
Fenced by state epoch and leader epoch. v1: how many records are done (KIP-1226).
Checks, in order, for each partition: group, topic and partition named? coordinator here? topic known? epochs?
"""

from asyncio import Future

from headrace.base.futures import completer
from headrace.server.context import RequestContext
from headrace.wire.schemas.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
)


def handle(
    context: RequestContext, request: WriteShareGroupStateRequest
) -> Future[WriteShareGroupStateResponse]:
    answer: Future[WriteShareGroupStateResponse] = context.parts.loop.create_future()
    context.parts.share_groups.coordinator.ask(request, completer(answer))
    return answer
