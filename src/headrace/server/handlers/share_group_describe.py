"""ShareGroupDescribe (77), v1: state, epochs and members of share groups (KIP-932).

Checks, in order: share groups offered? then for each group: coordinator here? group known, and a share group?
Otherwise GROUP_ID_NOT_FOUND.
"""

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.coordinators.group.share.share_group import as_described_group
from headrace.server.authorizer import Resource, authorized_operations
from headrace.server.context import RequestContext
from headrace.wire.schemas.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)


def handle(context: RequestContext, request: ShareGroupDescribeRequest) -> ShareGroupDescribeResponse:
    described = [_describe(context, group_id) for group_id in request.group_ids]
    if request.include_authorized_operations:
        for group in described:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = authorized_operations(context, Resource.GROUP, group.group_id)
    return ShareGroupDescribeResponse(groups=described)


def _describe(context: RequestContext, group_id: str) -> DescribedGroup:
    groups = context.parts.groups
    if not groups.share_groups_enabled:
        return DescribedGroup(ErrorCode.UNSUPPORTED_VERSION, None, group_id)
    if not group_id:
        return DescribedGroup(ErrorCode.INVALID_GROUP_ID, None, group_id)
    try:
        shard = groups.shard_for(group_id)
    except ApiError as error:
        return DescribedGroup(error.code, error.message, group_id)
    group = shard.share.groups.get(group_id)
    if group is None:
        words = shard.why_not_found(group_id, "share")
        return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, words, group_id)
    return as_described_group(group, context.parts.image)
