"""AlterPartition (56), v2-v3: the leader of a partition changes its in-sync set (KIP-497).

v3 tells the epoch of each broker in it (KIP-903).
"""

from asyncio import Future

from headrace.server.context import RequestContext
from headrace.server.own_controller import own_controller
from headrace.wire.schemas.alter_partition import AlterPartitionRequest, AlterPartitionResponse


def handle(context: RequestContext, request: AlterPartitionRequest) -> Future[AlterPartitionResponse]:
    return own_controller(context).alter_partition(request, api_version=context.api_version)
