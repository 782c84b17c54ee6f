"""LeaveGroup (13), v0-v5: members leave a classic group at once instead of timing out.

v0-v2 name one member, v3 a list with a result for each, static members by their instance (KIP-345).
Checks, in order: group id given? coordinator here? group known? member known, instance its own?
"""

from typing import Final

from headrace.base.errors import ApiError
from headrace.server.context import RequestContext
from headrace.wire.schemas.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

MANY_MEMBERS_SINCE: Final = 3


def handle(context: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse:
    groups = context.parts.groups
    try:
        machine = groups.machine_of(request.group_id)
    except ApiError as error:
        return LeaveGroupResponse(error_code=error.code)
    many = context.api_version >= MANY_MEMBERS_SINCE
    if not many:
        request.members = [MemberIdentity(request.member_id)]
    response = machine.classic.leave(request, now_ms=groups.now_ms())
    groups.arm()
    if not many and response.members:
        return LeaveGroupResponse(error_code=response.members[0].error_code)
    return response
