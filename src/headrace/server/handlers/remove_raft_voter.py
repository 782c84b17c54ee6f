"""RemoveRaftVoter (81), v0: a voter of the metadata log becomes an observer (KIP-853).

VOTER_NOT_FOUND for one that is none. A leader that removes itself gives up when that is committed.
"""

from asyncio import Future

from headrace.server.context import RequestContext
from headrace.wire.schemas.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse


def handle(context: RequestContext, request: RemoveRaftVoterRequest) -> Future[RemoveRaftVoterResponse]:
    return context.controller.remove_raft_voter(request)
