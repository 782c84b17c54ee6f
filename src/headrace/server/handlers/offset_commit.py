"""OffsetCommit (8), v2-v10: remember how far a group has read.

Checks, in order: topic and partition known? coordinator here? member, instance and generation right (an empty
group takes commits from outside, with generation -1)? no rebalance being completed? metadata within
`offset.metadata.max.bytes`? Answered when the offsets are in the log. v7: static members. v9: member epochs
of consumer groups (STALE_MEMBER_EPOCH); the error for an unknown group is GROUP_ID_NOT_FOUND. v10: topics by
id.

A commit that was overtaken by a newer one of the same member
(`coordinators/group/offset_metadata_manager.py`) ends the connection that it came over.
"""

from asyncio import Future

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.futures import completer
from headrace.base.ids import TopicId
from headrace.base.internal_topics import OFFSETS_TOPIC
from headrace.coordinators.group.offset_metadata_manager import (
    OffsetToCommit,
    check_batch_size,
    within_metadata_limit,
)
from headrace.coordinators.group.shard import GroupCoordinatorShard
from headrace.metadata.topics import TopicImage
from headrace.server.context import NO_REPLY, NoReply, RequestContext
from headrace.server.long_requests import Slices, awaited
from headrace.server.request_pieces import answered_in_pieces
from headrace.wire.schemas.offset_commit import (
    MEMBER_EPOCH_SINCE,
    TOPIC_ID_SINCE,
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_Wanted = tuple[OffsetCommitResponsePartition, OffsetToCommit]
_Answer = OffsetCommitResponse | Future[OffsetCommitResponse] | NoReply


def handle(context: RequestContext, request: OffsetCommitRequest) -> _Answer:
    wanted: list[_Wanted] = []
    return _decide(context, request, _sort_out_all(context, request, wanted), wanted)


def handle_in_slices(
    context: RequestContext, request: OffsetCommitRequest
) -> Slices[OffsetCommitResponse | NoReply]:
    """The same of many partitions, which are still written together."""
    wanted: list[_Wanted] = []
    response = yield from answered_in_pieces(
        request, "topics.partitions", lambda piece: _sort_out_all(context, piece, wanted)
    )
    answer: OffsetCommitResponse | NoReply = yield from awaited(
        _decide(context, request, response, wanted, is_long=True)
    )
    return answer


def _decide(
    context: RequestContext,
    request: OffsetCommitRequest,
    response: OffsetCommitResponse,
    wanted: list[_Wanted],
    *,
    is_long: bool = False,
) -> _Answer:
    if not wanted:
        return response
    groups = context.parts.groups
    try:
        shard = groups.shard_for(request.group_id)
        _check_member(context, request, shard, wanted)
        if is_long:
            home = context.parts.replica_manager.find(OFFSETS_TOPIC, groups.partition_of(request.group_id))
            check_batch_size(request.group_id, wanted, home.local_log().config.max_message_bytes)
    except ApiError as error:
        for result, _ in wanted:
            result.error_code = error.code
        return response
    peer, commits = context.peer, [commit for _, commit in wanted]
    if shard.offsets.is_overtaken(request.group_id, request.member_id, peer.opened_at, commits):
        peer.close("a commit came after newer ones of its member over a newer connection")
        return NO_REPLY
    groups.arm()
    return _commit(context, request, shard, response, wanted)


def _sort_out_all(
    context: RequestContext, request: OffsetCommitRequest, wanted: list[_Wanted]
) -> OffsetCommitResponse:
    return OffsetCommitResponse(topics=[_sort_out(context, topic, wanted) for topic in request.topics])


def _sort_out(
    context: RequestContext, topic: OffsetCommitRequestTopic, wanted: list[_Wanted]
) -> OffsetCommitResponseTopic:
    """The topic's part of the reply; what can be committed goes to `wanted`."""
    image = _topic_of(context, topic)
    by_id = context.api_version >= TOPIC_ID_SINCE
    answer = OffsetCommitResponseTopic(topic.name, topic.topic_id)
    for partition in topic.partitions:
        result = OffsetCommitResponsePartition(partition.partition_index)
        answer.partitions.append(result)
        if image is None and by_id:
            result.error_code = ErrorCode.UNKNOWN_TOPIC_ID
        elif image is None or partition.partition_index not in image.partitions:
            result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            wanted.append((result, OffsetToCommit.from_request(image, partition)))
    return answer


def _check_member(
    context: RequestContext, request: OffsetCommitRequest, shard: GroupCoordinatorShard, wanted: list[_Wanted]
) -> None:
    error = shard.offsets.validate_offset_commit(
        request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id_or_member_epoch,
        api_version=context.api_version,
        partitions=((commit.topic_id, commit.topic_partition.partition) for _, commit in wanted),
    )
    unknown = error is ErrorCode.ILLEGAL_GENERATION and not shard.exists(request.group_id)
    if unknown and context.api_version >= MEMBER_EPOCH_SINCE:
        error = ErrorCode.GROUP_ID_NOT_FOUND
    if error is not ErrorCode.NONE:
        raise ApiError(error)


def _commit(
    context: RequestContext,
    request: OffsetCommitRequest,
    shard: GroupCoordinatorShard,
    response: OffsetCommitResponse,
    wanted: list[_Wanted],
) -> Future[OffsetCommitResponse]:
    small = within_metadata_limit(wanted, shard.limits.offset_metadata_bytes_max)
    future: Future[OffsetCommitResponse] = context.parts.loop.create_future()
    complete = completer(future)

    def done(error: ErrorCode) -> None:
        for result, _ in small:
            result.error_code = error
        complete(response)

    shard.offsets.commit(request.group_id, [commit for _, commit in small], done)
    return future


def _topic_of(context: RequestContext, topic: OffsetCommitRequestTopic) -> TopicImage | None:
    image = context.parts.image
    if context.api_version >= TOPIC_ID_SINCE:
        return image.topics_by_id.get(TopicId(topic.topic_id))
    return image.topics_by_name.get(topic.name)
