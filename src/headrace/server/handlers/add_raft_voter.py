"""AddRaftVoter (80), v0-v1: a controller that follows the metadata log becomes one of its voters (KIP-853).

Needs kraft.version 1. One change at a time, and only by one that has caught up: REQUEST_TIMED_OUT otherwise.
v1 may be answered before the change is committed.
"""

from asyncio import Future

from headrace.server.context import RequestContext
from headrace.wire.schemas.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse


def handle(context: RequestContext, request: AddRaftVoterRequest) -> Future[AddRaftVoterResponse]:
    return context.controller.add_raft_voter(request)
