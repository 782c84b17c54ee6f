"""DeleteShareGroupOffsets (92), v0: forget topics of an empty share group (KIP-932).

Checks, in order: share groups offered? group named? coordinator here? group known? nobody in it? then of each
topic: may it be read? known? read by the group? One that is named twice is answered once.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Collection
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.futures import completer
from headrace.base.ids import NO_TOPIC_ID, TopicId
from headrace.server.context import RequestContext
from headrace.server.long_requests import Slices, awaited
from headrace.server.request_pieces import answered_in_pieces
from headrace.server.share.acknowledging import check_group_id, why_not_readable, words_about_offsets
from headrace.wire.schemas.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)

NOTHING_TO_DELETE: Final = "There is no offset information to delete."
"""Kafka's words for a topic that the group has not read."""

_Wanted = dict[TopicId, DeleteShareGroupOffsetsResponseTopic]
"""What can be forgotten, and what is told of it."""


def handle(
    context: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse | Future[DeleteShareGroupOffsetsResponse]:
    wanted: _Wanted = {}
    return _delete(context, request.group_id, _sort_out(context, request, wanted), wanted)


def handle_in_slices(
    context: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> Slices[DeleteShareGroupOffsetsResponse]:
    """The same of many topics."""
    wanted: _Wanted = {}
    response = yield from answered_in_pieces(
        request, "topics", lambda piece: _sort_out(context, piece, wanted)
    )
    answer: DeleteShareGroupOffsetsResponse = yield from awaited(
        _delete(context, request.group_id, response, wanted)
    )
    return answer


def _sort_out(
    context: RequestContext, request: DeleteShareGroupOffsetsRequest, wanted: _Wanted
) -> DeleteShareGroupOffsetsResponse:
    """The reply; what can be deleted goes to `wanted`."""
    names = context.parts.image.topics_by_name
    response = DeleteShareGroupOffsetsResponse()
    for asked in request.topics:
        refusal, topic = why_not_readable(context, asked.topic_name), names.get(asked.topic_name)
        if topic is not None and topic.id in wanted:
            continue
        told = DeleteShareGroupOffsetsResponseTopic(asked.topic_name)
        response.responses.append(told)
        if topic is None or refusal is not ErrorCode.NONE:
            told.error_code, told.error_message = refusal, words_about_offsets(refusal)
        else:
            told.topic_id = topic.id
            wanted[topic.id] = told
    return response


def _delete(
    context: RequestContext,
    group_id: str,
    response: DeleteShareGroupOffsetsResponse,
    wanted: _Wanted,
) -> DeleteShareGroupOffsetsResponse | Future[DeleteShareGroupOffsetsResponse]:
    groups = context.parts.groups
    answer: Future[DeleteShareGroupOffsetsResponse] = context.parts.loop.create_future()
    complete = completer(answer)

    def done(error: ErrorCode, forgotten: Collection[TopicId]) -> None:
        if error is not ErrorCode.NONE:
            response.error_code, response.error_message, response.responses = error, error.name, []
        for told in (wanted[topic_id] for topic_id in wanted if topic_id not in forgotten):
            told.topic_id = NO_TOPIC_ID
            told.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            told.error_message = NOTHING_TO_DELETE
        complete(response)

    try:
        if not groups.share_groups_enabled:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        check_group_id(group_id)
        groups.shard_for(group_id).share_offsets.delete(group_id, [*wanted], done)
    except ApiError as error:
        return DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)
    return answer
