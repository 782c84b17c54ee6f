"""ControllerRegistration (70), v0: a controller tells the active one its endpoints and features.

KIP-919.
"""

from __future__ import annotations

from dataclasses import field

from headrace.wire.notation import NO_UUID, int16, int32, message, struct, uint16, uuid


@struct
class Listener:
    name: str = ""
    host: str = ""
    port: uint16 = 0
    security_protocol: int16 = 0


@struct
class Feature:
    name: str = ""
    min_supported_version: int16 = 0
    max_supported_version: int16 = 0


@message(api_key=70, versions=range(1), flexible_from=0)
class ControllerRegistrationRequest:
    controller_id: int32 = 0
    incarnation_id: uuid = NO_UUID
    zk_migration_ready: bool = False
    listeners: list[Listener] = field(default_factory=list)
    features: list[Feature] = field(default_factory=list)


@message(api_key=70, versions=range(1), flexible_from=0)
class ControllerRegistrationResponse:
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = ""
