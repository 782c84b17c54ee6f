"""JoinGroup (11), v0-v9: become a member of a classic group, and wait for the others.

Checks, in order: group id given? coordinator here? session time-out within the broker's limits? group full?
protocols in common with the group? member id and instance known? v4: a new member is first given an id and
told to come back with it (KIP-394). v5: static members (KIP-345). v9: a returning static leader may skip the
assignment (KIP-814). The answer comes when the rebalance is through.
"""

from asyncio import Future
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.coordinators.group.classic_protocol import Caller
from headrace.coordinators.group.classic_replies import JoinFeatures
from headrace.server.context import RequestContext
from headrace.server.pending import settle
from headrace.wire.schemas.join_group import JoinGroupRequest, JoinGroupResponse

MEMBER_ID_REQUIRED_SINCE: Final = 4
SKIP_ASSIGNMENT_SINCE: Final = 9


def handle(
    context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse | Future[JoinGroupResponse]:
    parts = context.parts
    if not request.group_id:
        return JoinGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID, member_id=request.member_id)
    try:
        machine = parts.groups.machine_of(request.group_id)
    except ApiError as error:
        return JoinGroupResponse(error_code=error.code, member_id=request.member_id)
    answer: Future[JoinGroupResponse] = parts.loop.create_future()
    version = context.api_version
    machine.classic.join(
        request,
        Caller(context.client_id or "", f"/{context.connection.host}"),
        features=JoinFeatures(version >= MEMBER_ID_REQUIRED_SINCE, version >= SKIP_ASSIGNMENT_SINCE),
        now_ms=parts.groups.now_ms(),
        answer=settle(answer),
    )
    parts.groups.arm()
    return answer
