"""ConsumerGroupDescribe (69), v0-v1: state, epochs and members of consumer groups.

Checks, in order: the protocol offered? then for each group: coordinator here? group known, and a consumer
group? Otherwise GROUP_ID_NOT_FOUND. Members show the partitions they have and those they should have. v1:
whether a member still uses the classic protocol (KIP-1099).
"""

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.coordinators.group.consumer.consumer_group import as_described_group
from headrace.coordinators.group.group_config_manager import CONSUMER_PROTOCOL_DISABLED
from headrace.server.authorizer import Resource, authorized_operations
from headrace.server.context import RequestContext
from headrace.wire.schemas.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def handle(context: RequestContext, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
    if not context.parts.groups.consumer_protocol_enabled:
        return ConsumerGroupDescribeResponse(
            groups=[
                DescribedGroup(ErrorCode.UNSUPPORTED_VERSION, CONSUMER_PROTOCOL_DISABLED, group_id)
                for group_id in request.group_ids
            ]
        )
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
        shard = groups.shard_for(group_id)
    except ApiError as error:
        return DescribedGroup(error.code, error.message, group_id)
    group = shard.consumer.groups.get(group_id)
    if group is None:
        words = shard.why_not_found(group_id, "consumer")
        return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, words, group_id)
    assignors = groups.group_configs.of(group_id).assignors
    return as_described_group(group, context.parts.image, default_assignor=assignors[0])
