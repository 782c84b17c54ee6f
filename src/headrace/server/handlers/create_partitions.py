"""CreatePartitions (37), v0-v3: give topics more partitions.

Each topic succeeds or fails by itself. Checks, in order: named twice? topic known? more than there are?
assignments given for all of the new ones, and of the replication factor of the old ones?
"""

from asyncio import Future

from headrace.server.context import RequestContext
from headrace.wire.schemas.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse


def handle(context: RequestContext, request: CreatePartitionsRequest) -> Future[CreatePartitionsResponse]:
    return context.controller.create_partitions(request)
