"""ListGroups (16), v0-v5: the groups this node coordinates.

While a partition of `__consumer_offsets` is loading the list would have holes: COORDINATOR_LOAD_IN_PROGRESS.
v4: filter by state (KIP-518). v5: filter by type (KIP-848). Filters do not mind upper and lower case.
"""

from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.server.context import RequestContext
from headrace.wire.schemas.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"


def handle(context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    runtime = context.parts.groups.runtime
    if runtime.loading:
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    states = {state.lower() for state in request.states_filter}
    types = {name.lower() for name in request.types_filter}
    listed = []
    for machine in runtime.machines():
        for group_id in machine.group_ids():
            state = machine.state_of(group_id)
            kind = CONSUMER if group_id in machine.consumer.groups else CLASSIC
            if (states and state.lower() not in states) or (types and kind not in types):
                continue
            group = machine.classic.groups.get(group_id)
            protocol_type = CONSUMER if kind is CONSUMER else (group.protocol_type if group else None) or ""
            listed.append(ListedGroup(group_id, protocol_type, state.value, kind))
    return ListGroupsResponse(groups=listed)
