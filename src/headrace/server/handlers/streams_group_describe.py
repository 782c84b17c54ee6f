"""StreamsGroupDescribe (89), v0: state, epochs, topology and members of streams groups (KIP-1071).

Checks, in order: streams groups offered? then for each group: coordinator here? group known, and a streams
group? Otherwise GROUP_ID_NOT_FOUND.
"""

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.coordinators.group.streams.streams_group import as_described_group
from headrace.server.authorizer import Resource, authorized_operations
from headrace.server.context import RequestContext
from headrace.wire.schemas.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)


def handle(context: RequestContext, request: StreamsGroupDescribeRequest) -> StreamsGroupDescribeResponse:
    described = [_describe(context, group_id) for group_id in request.group_ids]
    if request.include_authorized_operations:
        for group in described:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = authorized_operations(context, Resource.GROUP, group.group_id)
    return StreamsGroupDescribeResponse(groups=described)


def _describe(context: RequestContext, group_id: str) -> DescribedGroup:
    groups = context.parts.groups
    if not groups.streams_groups_enabled:
        return DescribedGroup(ErrorCode.UNSUPPORTED_VERSION, None, group_id)
    if not group_id:
        return DescribedGroup(ErrorCode.INVALID_GROUP_ID, None, group_id)
    try:
        shard = groups.shard_for(group_id)
    except ApiError as error:
        return DescribedGroup(error.code, error.message, group_id)
    group = shard.streams.groups.get(group_id)
    if group is None:
        words = shard.why_not_found(group_id, "streams")
        return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, words, group_id)
    return as_described_group(group)
