"""FetchSnapshot (59), v0-v1: a piece of a snapshot of the metadata log (KIP-630).

SNAPSHOT_NOT_FOUND where it is gone, POSITION_OUT_OF_RANGE behind its end, errors of the epoch as in Fetch. v1
tells the replica's directory and where the leader listens (KIP-853).
"""

from headrace.server.context import RequestContext
from headrace.wire.schemas.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse


def handle(context: RequestContext, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
    return context.parts.quorum.serving.fetch_snapshot(request, api_version=context.api_version)
