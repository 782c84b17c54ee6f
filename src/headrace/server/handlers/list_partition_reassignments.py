"""ListPartitionReassignments (46), v0: which replicas are being moved (KIP-455). Null stands for all
partitions.
"""

from asyncio import Future

from headrace.server.context import RequestContext
from headrace.wire.schemas.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle(
    context: RequestContext, request: ListPartitionReassignmentsRequest
) -> Future[ListPartitionReassignmentsResponse]:
    return context.controller.list_partition_reassignments(request)
