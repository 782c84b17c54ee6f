"""DescribeGroups (15), v0-v6: the state and members of classic groups.

A group that is not known, or is not a classic one, is Dead, from v6 on with GROUP_ID_NOT_FOUND (KIP-1043).
Members show what they subscribe to only while the group is stable. v3: what the asker may do with the group.
"""

from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.coordinators.group.classic_group import ClassicGroup, GroupState, Member
from headrace.coordinators.group.machine import GroupMachine
from headrace.server.context import RequestContext
from headrace.wire.schemas.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

NOT_FOUND_SINCE: Final = 6
OPERATIONS_SINCE: Final = 3
# All that can be done with a group, as bits of Kafka's AclOperation: READ, DELETE, DESCRIBE,
# DESCRIBE_CONFIGS, ALTER_CONFIGS.
ALL_OPERATIONS: Final = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11


def handle(context: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    described = [_describe(context, group_id) for group_id in request.groups]
    if request.include_authorized_operations and context.api_version >= OPERATIONS_SINCE:
        for group in described:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = ALL_OPERATIONS
    return DescribeGroupsResponse(groups=described)


def _describe(context: RequestContext, group_id: str) -> DescribedGroup:
    try:
        machine = context.parts.groups.machine_of(group_id)
    except ApiError as error:
        return DescribedGroup(error.code, group_id=group_id)
    group = machine.classic.groups.get(group_id)
    if group is None:
        return _without_members(context, machine, group_id)
    stable = group.is_in(GroupState.STABLE)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if stable else "",
        members=[_member(group, member, stable) for member in group.members.values()],
    )


def _without_members(context: RequestContext, machine: GroupMachine, group_id: str) -> DescribedGroup:
    is_consumer = group_id in machine.consumer.groups
    state = GroupState.DEAD if is_consumer else machine.state_of(group_id)
    answer = DescribedGroup(group_id=group_id, group_state=state.value)
    if state is GroupState.DEAD and context.api_version >= NOT_FOUND_SINCE:
        answer.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        answer.error_message = f"there is no classic group {group_id}"
    return answer


def _member(group: ClassicGroup, member: Member, stable: bool) -> DescribedGroupMember:
    return DescribedGroupMember(
        member.id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.metadata_for(group.protocol or "") if stable else b"",
        member.assignment,
    )
