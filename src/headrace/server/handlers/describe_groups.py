"""DescribeGroups (15), v0-v6: the state and members of classic groups.

A group that is not known, or is not a classic one, is Dead, from v6 on with GROUP_ID_NOT_FOUND (KIP-1043).
Members show what they subscribe to only while the group is stable. v3: what the asker may do with the group.
"""

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.coordinators.group.classic.classic_group import (
    ClassicGroup,
    ClassicGroupMember,
    ClassicGroupState,
)
from headrace.coordinators.group.shard import GroupCoordinatorShard
from headrace.server.authorizer import Resource, authorized_operations
from headrace.server.context import RequestContext
from headrace.wire.schemas.describe_groups import (
    AUTHORIZED_OPERATIONS_SINCE,
    GROUP_ID_NOT_FOUND_SINCE,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)


def handle(context: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    described = [_describe(context, group_id) for group_id in request.groups]
    if request.include_authorized_operations and context.api_version >= AUTHORIZED_OPERATIONS_SINCE:
        for group in described:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = authorized_operations(context, Resource.GROUP, group.group_id)
    return DescribeGroupsResponse(groups=described)


def _describe(context: RequestContext, group_id: str) -> DescribedGroup:
    try:
        shard = context.parts.groups.shard_for(group_id)
    except ApiError as error:
        return DescribedGroup(error.code, group_id=group_id)
    group = shard.classic.groups.get(group_id)
    if group is None:
        return _without_members(context, shard, group_id)
    stable = group.is_in(ClassicGroupState.STABLE)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if stable else "",
        members=[_member(group, member, stable) for member in group.members.values()],
    )


def _without_members(context: RequestContext, shard: GroupCoordinatorShard, group_id: str) -> DescribedGroup:
    kinds = shard.consumer.groups, shard.share.groups, shard.streams.groups
    is_other = any(group_id in groups for groups in kinds)
    state = ClassicGroupState.DEAD if is_other else shard.state_of(group_id)
    answer = DescribedGroup(group_id=group_id, group_state=state.value)
    if state is ClassicGroupState.DEAD and context.api_version >= GROUP_ID_NOT_FOUND_SINCE:
        answer.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        answer.error_message = shard.why_not_found(group_id, "classic")
    return answer


def _member(group: ClassicGroup, member: ClassicGroupMember, stable: bool) -> DescribedGroupMember:
    return DescribedGroupMember(
        member.id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.metadata_for(group.protocol or "") if stable else b"",
        member.assignment,
    )
