"""EndQuorumEpoch (54), v0-v1: the leader of the metadata quorum gives up, and names who should follow it.

The first of its candidates stands for election at once, the others a little later (KIP-595).
"""

from asyncio import Future

from headrace.server.context import RequestContext
from headrace.wire.schemas.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse


def handle(context: RequestContext, request: EndQuorumEpochRequest) -> Future[EndQuorumEpochResponse]:
    return context.parts.quorum.serving.end_quorum_epoch(request, api_version=context.api_version)
