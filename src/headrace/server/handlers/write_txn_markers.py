"""WriteTxnMarkers (27), v1-v2: a coordinator ends transactions in partitions that this node leads.

Checks, in order: may act for the cluster (or alter it: an administrator aborts what hangs)? then of each
partition: known? leader here? enough in sync? the producer's and the coordinator's epoch not older than those
last seen? v2: the transaction's version, and with it stricter epochs (KIP-1228). See
`server/marker_writing.py`.
"""

from asyncio import Future

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.server.authority import CLUSTER_NAME, Operation, Resource, allows, may_act_for_cluster
from headrace.server.context import RequestContext
from headrace.server.marker_writing import write_markers
from headrace.wire.schemas.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse


def handle(
    context: RequestContext, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse | Future[WriteTxnMarkersResponse]:
    may_alter = allows(context, Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME)
    if not may_alter and not may_act_for_cluster(context):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return write_markers(context.parts, request)
