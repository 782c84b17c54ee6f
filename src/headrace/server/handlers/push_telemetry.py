"""PushTelemetry (72), v0: a client pushes its metrics, as OpenTelemetry's MetricsData (KIP-714).

Checks, in order: an id? not after its last push (INVALID_REQUEST)? its interval over, unless this is the last
push (THROTTLING_QUOTA_EXCEEDED)? the id of its subscription (UNKNOWN_SUBSCRIPTION_ID)? a compression that is
accepted (UNSUPPORTED_COMPRESSION_TYPE)? not too large, packed or unpacked (TELEMETRY_TOO_LARGE)? metrics at
all (INVALID_RECORD)? Everyone may push.
"""

import asyncio

from headrace.base.futures import then
from headrace.server.context import RequestContext
from headrace.wire.schemas.push_telemetry import PushTelemetryRequest, PushTelemetryResponse


def handle(
    context: RequestContext, request: PushTelemetryRequest
) -> "PushTelemetryResponse | asyncio.Future[PushTelemetryResponse]":
    taken = context.parts.client_metrics.push(request, context)
    if taken is None:
        return PushTelemetryResponse()
    return then(taken, lambda _: PushTelemetryResponse(), loop=context.parts.loop)
