"""ConsumerGroupDescribe (69), v0-v1: state, epochs and members of consumer groups.

Checks, in order, for each group: coordinator here? group known, and a consumer group? Otherwise
GROUP_ID_NOT_FOUND. Members show the partitions they have and those they should have. v1: whether a member
still uses the classic protocol (KIP-1099).
"""

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.coordinators.group.consumer.describe import describe
from headrace.server.authority import Resource, authorized_operations
from headrace.server.context import RequestContext
from headrace.wire.schemas.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def handle(context: RequestContext, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
    described = [_describe(context, group_id) for group_id in request.group_ids]
    if request.include_authorized_operations:
        for group in described:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = authorized_operations(context, Resource.GROUP, group.group_id)
    return ConsumerGroupDescribeResponse(groups=described)


def _describe(context: RequestContext, group_id: str) -> DescribedGroup:
    groups = context.parts.groups
    if not group_id:
        return DescribedGroup(ErrorCode.INVALID_GROUP_ID, None, group_id)
    try:
        group = groups.machine_of(group_id).consumer.groups.get(group_id)
    except ApiError as error:
        return DescribedGroup(error.code, error.message, group_id)
    if group is None:
        return DescribedGroup(
            ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {group_id}", group_id
        )
    assignors = groups.consumer_settings.of(group_id).assignors
    return describe(group, context.parts.image, default_assignor=assignors[0])
