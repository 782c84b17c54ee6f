"""OffsetDelete (47), v0: forget a group's offsets for partitions nobody in it reads any more (KIP-496).

Checks, in order: coordinator here? group known? per topic: does a member still subscribe to it?
"""

from asyncio import Future

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicPartition
from headrace.server.context import RequestContext
from headrace.server.pending import settle
from headrace.wire.schemas.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(
    context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | Future[OffsetDeleteResponse]:
    try:
        machine = context.parts.groups.machine_of(request.group_id)
    except ApiError as error:
        return OffsetDeleteResponse(error_code=error.code)
    if not machine.exists(request.group_id):
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
    response = OffsetDeleteResponse()
    doomed: list[TopicPartition] = []
    deleted: list[OffsetDeleteResponsePartition] = []
    for topic in request.topics:
        in_use = machine.is_subscribed(request.group_id, topic.name)
        results = [OffsetDeleteResponsePartition(each.partition_index) for each in topic.partitions]
        response.topics.append(OffsetDeleteResponseTopic(topic.name, results))
        for result in results:
            if in_use:
                result.error_code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            else:
                doomed.append(TopicPartition(topic.name, result.partition_index))
                deleted.append(result)
    future: Future[OffsetDeleteResponse] = context.parts.loop.create_future()
    complete = settle(future)

    def done(error: ErrorCode) -> None:
        for result in deleted:
            result.error_code = error
        complete(response)

    machine.delete_offsets(request.group_id, doomed, done)
    return future
