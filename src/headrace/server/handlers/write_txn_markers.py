"""WriteTxnMarkers (27), v1-v2: a coordinator ends transactions in partitions that this node leads.

An administrator who may alter the cluster aborts with it what hangs. Checks, in order, of each partition:
known? leader here? enough in sync? the producer's and the coordinator's epoch not older than those last seen?
v2: the transaction's version, and with it stricter epochs (KIP-1228). See `server/marker_writing.py`.
"""

from asyncio import Future

from headrace.server.context import RequestContext
from headrace.server.marker_writing import write_markers
from headrace.wire.schemas.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse


def handle(
    context: RequestContext, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse | Future[WriteTxnMarkersResponse]:
    return write_markers(context.parts, request)
