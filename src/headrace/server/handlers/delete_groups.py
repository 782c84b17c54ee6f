"""DeleteGroups (42), v0-v3: delete groups that have no members, with their offsets.

Checks, in order: coordinator here? group known? group empty? Answered when all deletions are in the log.
v3: errors in words (KIP-1331).
"""

from asyncio import Future
from collections.abc import Callable
from functools import partial
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.futures import completer
from headrace.server.context import RequestContext
from headrace.wire.schemas.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

_WORDS: Final = {
    ErrorCode.GROUP_ID_NOT_FOUND: "The group id does not exist.",
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
    ErrorCode.NOT_COORDINATOR: "This is not the correct coordinator.",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is loading and hence can't process requests.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
}
"""Kafka's words for these errors."""


def handle(
    context: RequestContext, request: DeleteGroupsRequest
) -> DeleteGroupsResponse | Future[DeleteGroupsResponse]:
    results = [DeletableGroupResult(group_id) for group_id in dict.fromkeys(request.groups_names)]
    response = DeleteGroupsResponse(results=results)
    if not results:
        return response
    future: Future[DeleteGroupsResponse] = context.parts.loop.create_future()
    complete = completer(future)
    left = len(results)

    def done(result: DeletableGroupResult, error: ErrorCode) -> None:
        nonlocal left
        result.error_code = error
        if error is not ErrorCode.NONE:
            result.error_message = _WORDS.get(error, error.name)
        left -= 1
        if left == 0:
            complete(response)

    for result in results:
        _delete(context, result.group_id, partial(done, result))
    return future


def _delete(context: RequestContext, group_id: str, done: Callable[[ErrorCode], None]) -> None:
    try:
        shard = context.parts.groups.shard_for(group_id)
    except ApiError as error:
        done(error.code)
    else:
        shard.delete(group_id, done)
