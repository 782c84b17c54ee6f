"""OffsetDelete (47), v0: forget a group's offsets for partitions nobody in it reads any more (KIP-496).

Checks, in order: group id given? coordinator here? group known? does it read as consumers do, or is it empty?
then of each partition: known? does no member subscribe to its topic any more?
"""

from asyncio import Future
from collections.abc import Collection

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.futures import completer
from headrace.base.ids import TopicPartition
from headrace.coordinators.group.shard import GroupCoordinatorShard
from headrace.server.context import RequestContext
from headrace.server.long_requests import Slices, awaited
from headrace.server.request_pieces import answered_in_pieces
from headrace.wire.schemas.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

_Doomed = tuple[TopicPartition, OffsetDeleteResponsePartition]


def handle(
    context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | Future[OffsetDeleteResponse]:
    doomed: list[_Doomed] = []
    try:
        shard = _shard(context, request)
        response = _sort_out(context, request, shard.topics_in_use(request.group_id), doomed)
    except ApiError as error:
        return OffsetDeleteResponse(error_code=error.code)
    return _delete(context, request, shard, response, doomed)


def handle_in_slices(context: RequestContext, request: OffsetDeleteRequest) -> Slices[OffsetDeleteResponse]:
    """The same of many partitions, which are still deleted together."""
    doomed: list[_Doomed] = []
    try:
        shard = _shard(context, request)
        in_use = shard.topics_in_use(request.group_id)
    except ApiError as error:
        return OffsetDeleteResponse(error_code=error.code)
    response = yield from answered_in_pieces(
        request, "topics.partitions", lambda piece: _sort_out(context, piece, in_use, doomed)
    )
    answer: OffsetDeleteResponse = yield from awaited(_delete(context, request, shard, response, doomed))
    return answer


def _shard(context: RequestContext, request: OffsetDeleteRequest) -> GroupCoordinatorShard:
    if not request.group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    return context.parts.groups.shard_for(request.group_id)


def _sort_out(
    context: RequestContext,
    request: OffsetDeleteRequest,
    in_use: Collection[str] | None,
    doomed: list[_Doomed],
) -> OffsetDeleteResponse:
    """The reply; what can be deleted goes to `doomed`."""
    response = OffsetDeleteResponse()
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
                doomed.append((TopicPartition(topic.name, result.partition_index), result))
    return response


def _delete(
    context: RequestContext,
    request: OffsetDeleteRequest,
    shard: GroupCoordinatorShard,
    response: OffsetDeleteResponse,
    doomed: list[_Doomed],
) -> Future[OffsetDeleteResponse]:
    future: Future[OffsetDeleteResponse] = context.parts.loop.create_future()
    complete = completer(future)

    def done(error: ErrorCode) -> None:
        for _, result in doomed:
            result.error_code = error
        complete(response)

    shard.offsets.delete_offsets(request.group_id, dict.fromkeys(each for each, _ in doomed), done)
    return future
