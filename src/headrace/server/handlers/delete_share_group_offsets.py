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
from headrace.server.authority import WORDS
from headrace.server.context import RequestContext
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
    groups, names = context.parts.groups, context.parts.image.topics_by_name
    response = DeleteShareGroupOffsetsResponse()
    topic_ids = []
    for asked in request.topics:
        refusal, topic = why_not_readable(context, asked.topic_name), names.get(asked.topic_name)
        told = DeleteShareGroupOffsetsResponseTopic(asked.topic_name)
        response.responses.append(told)
        if topic is None or refusal is not ErrorCode.NONE:
            told.error_code, told.error_message = refusal, WORDS.get(refusal, NOT_HOSTED)
        else:
            told.topic_id = topic.id
            topic_ids.append(topic.id)
    answer: Future[DeleteShareGroupOffsetsResponse] = context.parts.loop.create_future()
    complete = completer(answer)

    def done(error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            response.error_code, response.error_message, response.responses = error, error.name, []
        complete(response)

    try:
        if not groups.share_groups_enabled:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        groups.shard_for(request.group_id).share_offsets.delete(request.group_id, topic_ids, done)
    except ApiError as error:
        return DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)
    return answer
