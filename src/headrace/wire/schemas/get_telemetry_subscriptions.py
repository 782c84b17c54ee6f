"""GetTelemetrySubscriptions (71), v0: a client asks which metrics it should push.

KIP-714.
"""

from __future__ import annotations

from dataclasses import field

from headrace.wire.notation import NO_UUID, int8, int16, int32, message, uuid


@message(api_key=71, versions=range(1), flexible_from=0)
class GetTelemetrySubscriptionsRequest:
    client_instance_id: uuid = NO_UUID


@message(api_key=71, versions=range(1), flexible_from=0)
class GetTelemetrySubscriptionsResponse:
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    client_instance_id: uuid = NO_UUID
    subscription_id: int32 = 0
    accepted_compression_types: list[int8] = field(default_factory=list)
    push_interval_ms: int32 = 0
    telemetry_max_bytes: int32 = 0
    delta_temporality: bool = False
    requested_metrics: list[str] = field(default_factory=list)
