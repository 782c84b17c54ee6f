"""ReadShareGroupStateSummary (87), v0-v1: where share partitions begin (KIP-932).

Between brokers: served by the share coordinator, answered once it is replicated.
Without the state of single records, and without fencing anybody. v1: how many records are done (KIP-1226).
Checks, in order, for each partition: group, topic and partition named? coordinator here? topic known? epochs?
"""

from asyncio import Future

from headrace.base.futures import completer
from headrace.server.context import RequestContext
from headrace.wire.schemas.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
)


def handle(
    context: RequestContext, request: ReadShareGroupStateSummaryRequest
) -> Future[ReadShareGroupStateSummaryResponse]:
    answer: Future[ReadShareGroupStateSummaryResponse] = context.parts.loop.create_future()
    context.parts.share_groups.coordinator.ask(request, completer(answer))
    return answer
