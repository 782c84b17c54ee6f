"""OffsetCommit (8), v2-v10: remember how far a group has read.

Checks, in order: coordinator here? topics known? member, instance and generation right (an empty group takes
commits from outside, with generation -1)? no rebalance being completed? metadata within
`offset.metadata.max.bytes`? Answered when the offsets are in the log. v7: static members. v9: the error for
an unknown group is GROUP_ID_NOT_FOUND. v10: topics by id.
"""

from asyncio import Future
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicId, TopicPartition
from headrace.coordinators.group.machine import GroupMachine, OffsetToCommit
from headrace.metadata.topics import TopicImage
from headrace.server.context import RequestContext
from headrace.server.pending import settle
from headrace.wire.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_IDS_SINCE: Final = 10
GROUP_NOT_FOUND_SINCE: Final = 9


def handle(
    context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Future[OffsetCommitResponse]:
    groups = context.parts.groups
    try:
        machine = groups.machine_of(request.group_id)
    except ApiError as error:
        return _all(request, error.code)
    error_code = machine.check_commit(
        request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id_or_member_epoch,
    )
    if error_code is not ErrorCode.NONE:
        unknown_group = error_code is ErrorCode.ILLEGAL_GENERATION and not machine.exists(request.group_id)
        if unknown_group and context.api_version >= GROUP_NOT_FOUND_SINCE:
            error_code = ErrorCode.GROUP_ID_NOT_FOUND
        return _all(request, error_code)
    groups.arm()
    return _commit(context, request, machine)


def _commit(
    context: RequestContext, request: OffsetCommitRequest, machine: GroupMachine
) -> Future[OffsetCommitResponse]:
    response = OffsetCommitResponse()
    commits: list[OffsetToCommit] = []
    written: list[OffsetCommitResponsePartition] = []
    for topic in request.topics:
        image = _topic_of(context, topic)
        answer = OffsetCommitResponseTopic(topic.name, topic.topic_id)
        response.topics.append(answer)
        for wish in topic.partitions:
            metadata = wish.committed_metadata or ""
            result = OffsetCommitResponsePartition(wish.partition_index)
            answer.partitions.append(result)
            if image is None:
                by_id = context.api_version >= TOPIC_IDS_SINCE
                result.error_code = (
                    ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                )
            elif len(metadata) > machine.limits.offset_metadata_bytes_max:
                result.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                where = TopicPartition(image.name, wish.partition_index)
                commits.append(
                    OffsetToCommit(
                        where, image.id, wish.committed_offset, wish.committed_leader_epoch, metadata
                    )
                )
                written.append(result)
    future: Future[OffsetCommitResponse] = context.parts.loop.create_future()
    complete = settle(future)

    def done(error: ErrorCode) -> None:
        for result in written:
            result.error_code = error
        complete(response)

    machine.commit(request.group_id, commits, done)
    return future


def _topic_of(context: RequestContext, topic: OffsetCommitRequestTopic) -> TopicImage | None:
    image = context.parts.image
    if context.api_version >= TOPIC_IDS_SINCE:
        return image.topics_by_id.get(TopicId(topic.topic_id))
    return image.topics_by_name.get(topic.name)


def _all(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                [OffsetCommitResponsePartition(each.partition_index, error) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )
