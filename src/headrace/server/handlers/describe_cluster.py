"""DescribeCluster (60), v0-v2: the brokers of the cluster (KIP-700).

v1 can ask for controllers instead: a broker's listener answers MISMATCHED_ENDPOINT_TYPE (KIP-919). v2 can
list fenced brokers too (KIP-1073).
"""

from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.server.authority import CLUSTER_NAME, NOT_ASKED_FOR, Resource, authorized_operations
from headrace.server.context import RequestContext
from headrace.server.leader_hints import addresses
from headrace.wire.schemas.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS: Final = 1
CONTROLLERS: Final = 2


def handle(context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    if request.endpoint_type == CONTROLLERS:
        raise ApiError(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type "
            "CONTROLLER",
        )
    if request.endpoint_type != BROKERS:
        raise ApiError(
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {request.endpoint_type}"
        )
    parts = context.parts
    brokers = parts.image.brokers
    shown = {b.id for b in brokers.values() if request.include_fenced_brokers or not b.fenced}
    operations = NOT_ASKED_FOR
    if request.include_cluster_authorized_operations:
        operations = authorized_operations(context, Resource.CLUSTER, CLUSTER_NAME)
    return DescribeClusterResponse(
        cluster_id=parts.cluster_id,
        controller_id=parts.node_id,
        brokers=[
            DescribeClusterBroker(node_id, host, port, rack, is_fenced=brokers[node_id].fenced)
            for node_id, host, port, rack in addresses(parts.image, shown, context.connection.listener)
        ],
        cluster_authorized_operations=operations,
    )
