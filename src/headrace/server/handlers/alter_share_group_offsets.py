"""AlterShareGroupOffsets (91), v0: move the start of an empty share group (KIP-932).

Checks, in order: share groups offered? group named? coordinator here? group a share group (one that is
not known is made)? nobody in it? then of each partition: may its topic be read? topic and partition known?
"""

from __future__ import annotations

from asyncio import Future

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.futures import completer
from headrace.base.ids import NO_TOPIC_ID
from headrace.coordinators.group.share.share_group import PartitionId
from headrace.server.context import RequestContext
from headrace.server.long_requests import Slices, awaited
from headrace.server.request_pieces import answered_in_pieces
from headrace.server.share.acknowledging import check_group_id, why_not_readable, words_about_offsets
from headrace.wire.schemas.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)

_Wanted = dict[PartitionId, tuple[int, AlterShareGroupOffsetsResponsePartition]]
"""Where partitions shall start, and what is told of them."""


def handle(
    context: RequestContext, request: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse | Future[AlterShareGroupOffsetsResponse]:
    wanted: _Wanted = {}
    return _alter(context, request.group_id, _sort_out(context, request, wanted), wanted)


def handle_in_slices(
    context: RequestContext, request: AlterShareGroupOffsetsRequest
) -> Slices[AlterShareGroupOffsetsResponse]:
    """The same of many partitions."""
    wanted: _Wanted = {}
    response = yield from answered_in_pieces(
        request, "topics.partitions", lambda piece: _sort_out(context, piece, wanted)
    )
    answer: AlterShareGroupOffsetsResponse = yield from awaited(
        _alter(context, request.group_id, response, wanted)
    )
    return answer


def _sort_out(
    context: RequestContext, request: AlterShareGroupOffsetsRequest, wanted: _Wanted
) -> AlterShareGroupOffsetsResponse:
    """The reply; what can be altered goes to `wanted`."""
    names = context.parts.image.topics_by_name
    response = AlterShareGroupOffsetsResponse()
    for asked in request.topics:
        refusal, topic = why_not_readable(context, asked.topic_name), names.get(asked.topic_name)
        told = AlterShareGroupOffsetsResponseTopic(
            asked.topic_name, NO_TOPIC_ID if topic is None else topic.id
        )
        response.responses.append(told)
        for each in asked.partitions:
            result = AlterShareGroupOffsetsResponsePartition(each.partition_index)
            told.partitions.append(result)
            if topic is None or refusal is not ErrorCode.NONE:
                _tell(result, refusal)
            elif each.partition_index not in topic.partitions:
                _tell(result, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                wanted[topic.id, each.partition_index] = each.start_offset, result
    return response


def _alter(
    context: RequestContext, group_id: str, response: AlterShareGroupOffsetsResponse, wanted: _Wanted
) -> AlterShareGroupOffsetsResponse | Future[AlterShareGroupOffsetsResponse]:
    groups = context.parts.groups
    answer: Future[AlterShareGroupOffsetsResponse] = context.parts.loop.create_future()
    complete = completer(answer)

    def done(outcomes: object) -> None:
        assert isinstance(outcomes, dict)
        for partition_id, error in outcomes.items():
            if error is not ErrorCode.NONE:
                _tell(wanted[partition_id][1], error)
        complete(response)

    try:
        if not groups.share_groups_enabled:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        check_group_id(group_id)
        offsets = {partition_id: offset for partition_id, (offset, _) in wanted.items()}
        groups.shard_for(group_id).share_offsets.alter(group_id, offsets, done)
    except ApiError as error:
        return AlterShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)
    return answer


def _tell(result: AlterShareGroupOffsetsResponsePartition, error: ErrorCode) -> None:
    result.error_code, result.error_message = error, words_about_offsets(error)
