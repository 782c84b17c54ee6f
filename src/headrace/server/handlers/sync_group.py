"""SyncGroup (14), v0-v5: a member asks for its share; the leader's request brings the shares of all.

Checks, in order: v5: protocol type and name given? coordinator here? group and member known? generation
equal? protocol type and name equal (KIP-559)? Answers REBALANCE_IN_PROGRESS while members join. Waits until
the leader's assignment is in the log.
"""

from asyncio import Future

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.futures import completer
from headrace.server.context import RequestContext
from headrace.wire.schemas.sync_group import PROTOCOL_SINCE, SyncGroupRequest, SyncGroupResponse


def handle(
    context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse | Future[SyncGroupResponse]:
    groups = context.parts.groups
    if context.api_version >= PROTOCOL_SINCE and None in (request.protocol_type, request.protocol_name):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    try:
        shard = groups.shard_for(request.group_id)
    except ApiError as error:
        # What was joined before a coordinator moved is unknown to the new one: the member joins again.
        loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS if loading else error.code)
    answer: Future[SyncGroupResponse] = context.parts.loop.create_future()
    shard.group_metadata_manager.classic_group_sync(request, now_ms=groups.now_ms(), answer=completer(answer))
    groups.arm()
    return answer
