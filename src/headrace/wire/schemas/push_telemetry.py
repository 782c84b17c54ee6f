"""PushTelemetry (72), v0: a client pushes its metrics.

KIP-714.
"""

from __future__ import annotations

from headrace.wire.notation import NO_UUID, int8, int16, int32, message, uuid


@message(api_key=72, versions=range(1), flexible_from=0)
class PushTelemetryRequest:
    client_instance_id: uuid = NO_UUID
    subscription_id: int32 = 0
    terminating: bool = False  # the last push before the client closes
    compression_type: int8 = 0
    metrics: bytes = b""


@message(api_key=72, versions=range(1), flexible_from=0)
class PushTelemetryResponse:
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
