"""ShareGroupHeartbeat (76), v1: join, stay in and leave a share group (KIP-932).

Checks, in order: share groups offered (`share.version`)? request well formed? coordinator here? group known
(joining makes it)? room in it? member known, epoch its own? The reply gives a member its epoch, its
partitions when they changed, and when to come back. It leaves once what it says is in the log, and the share
coordinator keeps state for what is given out first.
"""

from asyncio import Future

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.futures import completer
from headrace.coordinators.group.share.share_group_manager import validate_heartbeat
from headrace.server.context import RequestContext
from headrace.wire.schemas.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)


def handle(
    context: RequestContext, request: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse | Future[ShareGroupHeartbeatResponse]:
    groups = context.parts.groups
    if not groups.share_groups_enabled:
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    try:
        validate_heartbeat(request)
        shard = groups.shard_for(request.group_id)
    except ApiError as error:
        return ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
    answer: Future[ShareGroupHeartbeatResponse] = context.parts.loop.create_future()
    shard.share.heartbeat(
        request,
        client_id=context.client_id or "",
        client_host=f"/{context.peer.host}",
        answer=completer(answer),
    )
    groups.arm()
    return answer
