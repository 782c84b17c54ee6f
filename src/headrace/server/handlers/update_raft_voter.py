"""UpdateRaftVoter (82), v0: a voter tells where it listens, and which kraft.versions it can run (KIP-853)."""

from asyncio import Future

from headrace.server.context import RequestContext
from headrace.server.own_controller import own_controller
from headrace.wire.schemas.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse


def handle(context: RequestContext, request: UpdateRaftVoterRequest) -> Future[UpdateRaftVoterResponse]:
    return own_controller(context).update_raft_voter(request)
