"""ListGroups (16), v0-v5: the groups this node coordinates.

While a partition of `__consumer_offsets` is loading the list would have holes: COORDINATOR_LOAD_IN_PROGRESS.
v4: filter by state (KIP-518). v5: filter by type (KIP-848). Filters do not mind upper and lower case.
"""

from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.coordinators.group.shard import GroupCoordinatorShard
from headrace.server.context import RequestContext
from headrace.server.long_requests import SLICE_ITEMS, Slices, in_slices, unless_short
from headrace.wire.schemas.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
SHARE: Final = "share"
STREAMS: Final = "streams"


def handle(
    context: RequestContext, request: ListGroupsRequest
) -> ListGroupsResponse | Slices[ListGroupsResponse]:
    runtime = context.parts.groups.runtime
    if runtime.loading:
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    ids = [(shard, shard.group_ids()) for shard in runtime.shards()]
    items = sum(len(each) for _, each in ids) + len(request.states_filter) + len(request.types_filter)
    return unless_short(items, _list(request, ids))


def _list(
    request: ListGroupsRequest, ids: list[tuple[GroupCoordinatorShard, list[str]]]
) -> Slices[ListGroupsResponse]:
    states = set((yield from in_slices(request.states_filter, str.lower)))
    types = set((yield from in_slices(request.types_filter, str.lower)))
    listed = []
    for shard, group_ids in ids:
        for number, group_id in enumerate(group_ids, 1):
            if not number % SLICE_ITEMS:
                yield
            state = shard.state_of(group_id)
            kind = _kind_of(shard, group_id)
            if (states and state.lower() not in states) or (types and kind not in types):
                continue
            group = shard.classic.groups.get(group_id)
            protocol_type = kind if kind is not CLASSIC else (group.protocol_type if group else None) or ""
            listed.append(ListedGroup(group_id, protocol_type, state.value, kind))
    return ListGroupsResponse(groups=listed)


def _kind_of(shard: GroupCoordinatorShard, group_id: str) -> str:
    if group_id in shard.consumer.groups:
        return CONSUMER
    if group_id in shard.streams.groups:
        return STREAMS
    return SHARE if group_id in shard.share.groups else CLASSIC
