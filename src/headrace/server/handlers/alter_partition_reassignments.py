"""AlterPartitionReassignments (45), v0-v1: move replicas to other brokers, or (null) stop moving them
(KIP-455).

Each partition succeeds or fails by itself. v1 can forbid a change of the replication factor (KIP-860).
"""

from asyncio import Future

from headrace.server.context import RequestContext
from headrace.wire.schemas.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)


def handle(
    context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> Future[AlterPartitionReassignmentsResponse]:
    return context.controller.alter_partition_reassignments(request)
