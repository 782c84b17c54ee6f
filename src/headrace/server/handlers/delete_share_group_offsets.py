"""DeleteShareGroupOffsets (92), v0: forget topics of an empty share group (KIP-932).

Checks, in order: share groups offered? coordinator here? group known? nobody in it? then of each topic: may
it be read? known? One that the group has not read is forgotten already.
"""

from __future__ import annotations

from asyncio import Future
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.futures import completer
from headrace.base.ids import TopicId
from headrace.server.authority import WORDS
from headrace.server.context import RequestContext
from headrace.server.long_requests import Slices, awaited
from headrace.server.request_pieces import answered_in_pieces
from headrace.server.share.acknowledging import why_not_readable
from headrace.wire.schemas.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)

NOT_HOSTED: Final = "This server does not host this topic-partition."
"""Kafka's words for a topic that is not there."""


def handle(
    context: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse | Future[DeleteShareGroupOffsetsResponse]:
    topic_ids: list[TopicId] = []
    return _delete(context, request.group_id, _sort_out(context, request, topic_ids), topic_ids)


def handle_in_slices(
    context: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> Slices[DeleteShareGroupOffsetsResponse]:
    """The same of many topics."""
    topic_ids: list[TopicId] = []
    response = yield from answered_in_pieces(
        request, "topics", lambda piece: _sort_out(context, piece, topic_ids)
    )
    answer: DeleteShareGroupOffsetsResponse = yield from awaited(
        _delete(context, request.group_id, response, topic_ids)
    )
    return answer


def _sort_out(
    context: RequestContext, request: DeleteShareGroupOffsetsRequest, topic_ids: list[TopicId]
) -> DeleteShareGroupOffsetsResponse:
    """The reply; what can be deleted goes to `topic_ids`."""
    names = context.parts.image.topics_by_name
    response = DeleteShareGroupOffsetsResponse()
    for asked in request.topics:
        refusal, topic = why_not_readable(context, asked.topic_name), names.get(asked.topic_name)
        told = DeleteShareGroupOffsetsResponseTopic(asked.topic_name)
        response.responses.append(told)
        if topic is None or refusal is not ErrorCode.NONE:
            told.error_code, told.error_message = refusal, WORDS.get(refusal, NOT_HOSTED)
        else:
            told.topic_id = topic.id
            topic_ids.append(topic.id)
    return response


def _delete(
    context: RequestContext,
    group_id: str,
    response: DeleteShareGroupOffsetsResponse,
    topic_ids: list[TopicId],
) -> DeleteShareGroupOffsetsResponse | Future[DeleteShareGroupOffsetsResponse]:
    groups = context.parts.groups
    answer: Future[DeleteShareGroupOffsetsResponse] = context.parts.loop.create_future()
    complete = completer(answer)

    def done(error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            response.error_code, response.error_message, response.responses = error, error.name, []
        complete(response)

    try:
        if not groups.share_groups_enabled:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        groups.shard_for(group_id).share_offsets.delete(group_id, [*dict.fromkeys(topic_ids)], done)
    except ApiError as error:
        return DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)
    return answer
