"""LeaveGroup (13), v0-v5: members leave a classic group at once instead of timing out.

v0-v2 name one member, v3 a list with a result for each, static members by their instance (KIP-345).
Checks, in order: group id given? coordinator here? group known? member known, instance its own?
"""

from headrace.base.errors import ApiError
from headrace.server.context import RequestContext
from headrace.wire.schemas.leave_group import LeaveGroupRequest, LeaveGroupResponse


def handle(context: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse:
    groups = context.parts.groups
    try:
        machine = groups.machine_of(request.group_id)
    except ApiError as error:
        return LeaveGroupResponse(error_code=error.code)
    response = machine.classic.leave(request, now_ms=groups.now_ms())
    groups.arm()
    if context.api_version < 3:
        response.members = []
    return response
