"""Fetch (1), v12-v18, on a controller's listener: the metadata log, for voters and observers (KIP-595).

Only `__cluster_metadata-0`: INVALID_REQUEST for others. Errors of the epoch (FENCED_LEADER_EPOCH,
UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER) name the leader. A log that differs is told where (diverging
epoch), one that is behind the log's start is sent to a snapshot. v17 tells the replica's directory (KIP-853),
v18 the high watermark that it knows (KIP-1166).
"""

from asyncio import Future

from headrace.server.context import RequestContext
from headrace.wire.schemas.fetch import FetchRequest, FetchResponse


def handle(context: RequestContext, request: FetchRequest) -> Future[FetchResponse]:
    return context.parts.quorum.serving.fetch(request, api_version=context.api_version)
