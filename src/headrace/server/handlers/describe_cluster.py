"""DescribeCluster (60), v0-v2: the brokers of the cluster (KIP-700), or its controllers.

v1 says which (KIP-919): brokers are told on listeners of brokers and controllers on those of controllers,
MISMATCHED_ENDPOINT_TYPE otherwise. v2 can list fenced brokers too (KIP-1073).
"""

from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.server.authorizer import NOT_ASKED_FOR, authorized_cluster_operations
from headrace.server.context import RequestContext
from headrace.server.metadata_cache import addresses
from headrace.wire.schemas.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS: Final = 1
CONTROLLERS: Final = 2
_KINDS: Final = {BROKERS: "BROKER", CONTROLLERS: "CONTROLLER"}


def handle(context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    parts = context.parts
    at_controller = context.peer.listener in parts.config.controller_listener_names
    _check_endpoint_type(request.endpoint_type, CONTROLLERS if at_controller else BROKERS)
    operations = NOT_ASKED_FOR
    if request.include_cluster_authorized_operations:
        operations = authorized_cluster_operations(context)
    return DescribeClusterResponse(
        endpoint_type=request.endpoint_type,
        cluster_id=parts.cluster_id,
        controller_id=parts.image.controller_id if at_controller else parts.node_id,
        brokers=_controllers(context) if at_controller else _brokers(context, request),
        cluster_authorized_operations=operations,
    )


def _check_endpoint_type(asked: int, here: int) -> None:
    if asked not in _KINDS:
        raise ApiError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {asked}")
    if asked != here:
        raise ApiError(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            f"The request was sent to an endpoint of type {_KINDS[here]}, but we wanted an endpoint of type "
            f"{_KINDS[asked]}",
        )


def _brokers(context: RequestContext, request: DescribeClusterRequest) -> list[DescribeClusterBroker]:
    image = context.parts.image
    shown = {b.id for b in image.brokers.values() if request.include_fenced_brokers or not b.fenced}
    return [
        DescribeClusterBroker(node_id, host, port, rack, is_fenced=image.brokers[node_id].fenced)
        for node_id, host, port, rack in addresses(image, shown, context.peer.listener)
    ]


def _controllers(context: RequestContext) -> list[DescribeClusterBroker]:
    found = []
    for controller in sorted(context.parts.image.controllers.values(), key=lambda each: each.id):
        endpoint = controller.endpoints.get(context.peer.listener)
        if endpoint is not None:
            found.append(DescribeClusterBroker(controller.id, endpoint.host, endpoint.port, None))
    return found
