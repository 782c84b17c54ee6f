"""ElectLeaders (43), v0-v2: give partitions their preferred leader, or (v1) any leader at all.

Null stands for all partitions; then only those are told where something was done or failed.
ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE (KIP-460).
"""

from asyncio import Future

from headrace.server.context import RequestContext
from headrace.wire.schemas.elect_leaders import ElectLeadersRequest, ElectLeadersResponse


def handle(context: RequestContext, request: ElectLeadersRequest) -> Future[ElectLeadersResponse]:
    return context.controller.elect_leaders(request)
