"""JoinGroup (11), v0-v9: become a member of a classic group, and wait for the others.

Checks, in order: group id given? coordinator here? session time-out within the broker's limits? group full?
protocols in common with the group? member id and instance known? v4: a new member is first given an id and
told to come back with it (KIP-394). v5: static members (KIP-345). v9: a returning static leader may skip the
assignment (KIP-814). The answer comes when the rebalance is through.
"""

from asyncio import Future

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.futures import completer
from headrace.coordinators.group.classic.classic_group import JoinFeatures, join_error
from headrace.coordinators.group.classic.classic_group_manager import Caller
from headrace.server.context import RequestContext
from headrace.wire.schemas.join_group import (
    MEMBER_ID_REQUIRED_SINCE,
    NULL_PROTOCOL_SINCE,
    SKIP_ASSIGNMENT_SINCE,
    JoinGroupRequest,
    JoinGroupResponse,
)


def handle(
    context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse | Future[JoinGroupResponse]:
    parts = context.parts
    version = context.api_version
    answer: Future[JoinGroupResponse] = parts.loop.create_future()
    complete = completer(answer)

    def reply(response: JoinGroupResponse) -> None:
        if response.protocol_name is None and version < NULL_PROTOCOL_SINCE:
            response.protocol_name = ""
        complete(response)

    try:
        if not request.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        shard = parts.groups.shard_for(request.group_id)
    except ApiError as error:
        reply(join_error(request.member_id, error.code))
        return answer
    shard.group_metadata_manager.classic_group_join(
        request,
        Caller(context.client_id or "", f"/{context.peer.host}"),
        features=JoinFeatures(version >= MEMBER_ID_REQUIRED_SINCE, version >= SKIP_ASSIGNMENT_SINCE),
        now_ms=parts.groups.now_ms(),
        answer=reply,
    )
    parts.groups.arm()
    return answer
