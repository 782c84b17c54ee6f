"""Vote (52), v0-v2: a candidate of the metadata quorum asks for this node's vote.

Checks, in order: the cluster's id, the voter asked for (INVALID_VOTER_KEY), the epoch (FENCED_LEADER_EPOCH).
A vote is given once per epoch, to a log that has all that this node's has, and is on the disk before the
answer leaves. v2 first asks whether it would be given (KIP-996): nobody gives it who hears from a leader.
"""

from asyncio import Future

from headrace.server.context import RequestContext
from headrace.wire.schemas.vote import VoteRequest, VoteResponse


def handle(context: RequestContext, request: VoteRequest) -> Future[VoteResponse]:
    return context.parts.quorum.serving.vote(request, api_version=context.api_version)
