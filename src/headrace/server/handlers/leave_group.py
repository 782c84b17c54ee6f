"""LeaveGroup (13), v0-v5: members leave a group at once instead of timing out.

v0-v2 name one member, v3 a list with a result for each, static members by their instance (KIP-345).
Checks, in order: group id given? coordinator here? group known? member known, instance its own?
An administrator takes members of consumer groups out with it, too.
"""

from asyncio import Future

from headrace.base.errors import ApiError
from headrace.base.futures import completer
from headrace.server.context import RequestContext
from headrace.wire.schemas.leave_group import (
    MEMBERS_SINCE,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)


def handle(
    context: RequestContext, request: LeaveGroupRequest
) -> LeaveGroupResponse | Future[LeaveGroupResponse]:
    groups = context.parts.groups
    try:
        shard = groups.shard_for(request.group_id)
    except ApiError as error:
        return LeaveGroupResponse(error_code=error.code)
    many = context.api_version >= MEMBERS_SINCE
    if not many:
        request.members = [MemberIdentity(request.member_id)]
    future: Future[LeaveGroupResponse] = context.parts.loop.create_future()
    complete = completer(future)

    def answer(response: LeaveGroupResponse) -> None:
        if not many and response.members:
            response = LeaveGroupResponse(error_code=response.members[0].error_code)
        complete(response)

    shard.group_metadata_manager.classic_group_leave(request, now_ms=groups.now_ms(), answer=answer)
    groups.arm()
    return future
