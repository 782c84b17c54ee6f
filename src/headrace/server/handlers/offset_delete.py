"""OffsetDelete (47), v0: forget a group's offsets for partitions nobody in it reads any more (KIP-496).

Checks, in order: group id given? coordinator here? group known? does it read as consumers do, or is it empty?
then of each partition: known? does no member subscribe to its topic any more?
"""

from asyncio import Future

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.futures import completer
from headrace.base.ids import TopicPartition
from headrace.server.context import RequestContext
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
        if not request.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        shard = context.parts.groups.shard_for(request.group_id)
        in_use = shard.topics_in_use(request.group_id)
    except ApiError as error:
        return OffsetDeleteResponse(error_code=error.code)
    response = OffsetDeleteResponse()
    doomed: list[TopicPartition] = []
    deleted: list[OffsetDeleteResponsePartition] = []
    for topic in request.topics:
        image = context.parts.image.topics_by_name.get(topic.name)
        results = [OffsetDeleteResponsePartition(each.partition_index) for each in topic.partitions]
        response.topics.append(OffsetDeleteResponseTopic(topic.name, results))
        for result in results:
            if image is None or result.partition_index not in image.partitions:
                result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif in_use is None or topic.name in in_use:
                result.error_code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            else:
                doomed.append(TopicPartition(topic.name, result.partition_index))
                deleted.append(result)
    future: Future[OffsetDeleteResponse] = context.parts.loop.create_future()
    complete = completer(future)

    def done(error: ErrorCode) -> None:
        for result in deleted:
            result.error_code = error
        complete(response)

    shard.offsets.delete_offsets(request.group_id, doomed, done)
    return future
