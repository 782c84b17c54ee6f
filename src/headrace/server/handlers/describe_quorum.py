"""DescribeQuorum (55), v0-v2: who votes on the metadata log, who leads, how far each has got (KIP-595).

Only `__cluster_metadata-0` is known: UNKNOWN_TOPIC_OR_PARTITION for others. v2 tells directories and
listeners.
"""

from asyncio import Future

from headrace.server.context import RequestContext
from headrace.wire.schemas.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse


def handle(context: RequestContext, request: DescribeQuorumRequest) -> Future[DescribeQuorumResponse]:
    return context.controller.describe_quorum(request, api_version=context.api_version)
