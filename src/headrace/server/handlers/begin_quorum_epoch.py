"""BeginQuorumEpoch (53), v0-v1: the leader of an epoch of the metadata quorum makes itself known (KIP-595).

v1 names the voter that is meant and tells where the leader listens (KIP-853).
"""

from asyncio import Future

from headrace.server.context import RequestContext
from headrace.wire.schemas.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse


def handle(context: RequestContext, request: BeginQuorumEpochRequest) -> Future[BeginQuorumEpochResponse]:
    return context.parts.quorum.serving.begin_quorum_epoch(request, api_version=context.api_version)
