"""GetTelemetrySubscriptions (71), v0: a client asks which metrics it should push, and how often (KIP-714).

A client without an id is given one, which it keeps for its life. THROTTLING_QUOTA_EXCEEDED where it asks
again within its push interval, unless it was sent here by UNKNOWN_SUBSCRIPTION_ID or
UNSUPPORTED_COMPRESSION_TYPE. Everyone may ask.
"""

from headrace.server.client_metrics_manager import COMPRESSION_TYPES
from headrace.server.context import RequestContext
from headrace.wire.schemas.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)


def handle(
    context: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    manager = context.parts.client_metrics
    instance = manager.get_subscription(request.client_instance_id, context)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance.instance_id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=[int(each) for each in COMPRESSION_TYPES],
        push_interval_ms=instance.interval_ms,
        telemetry_max_bytes=manager.telemetry_bytes_max,
        delta_temporality=True,
        requested_metrics=list(instance.metrics),
    )
