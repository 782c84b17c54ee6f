"""AlterClientQuotas (49), v0-1: set or remove quotas of users, clients and addresses.

KIP-546. v1 flexible.
"""

from __future__ import annotations

from dataclasses import field

from headrace.wire.notation import float64, int16, int32, message, struct


@struct
class EntityData:
    entity_type: str = ""
    entity_name: str | None = ""  # null is the default entity


@struct
class OpData:
    key: str = ""
    value: float64 = 0.0
    remove: bool = False


@struct
class RequestEntryData:
    entity: list[EntityData] = field(default_factory=list)
    ops: list[OpData] = field(default_factory=list)


@message(api_key=49, versions=range(2), flexible_from=1)
class AlterClientQuotasRequest:
    entries: list[RequestEntryData] = field(default_factory=list)
    validate_only: bool = False


@struct
class ResponseEntryData:
    error_code: int16 = 0
    error_message: str | None = ""
    entity: list[EntityData] = field(default_factory=list)


@message(api_key=49, versions=range(2), flexible_from=1)
class AlterClientQuotasResponse:
    throttle_time_ms: int32 = 0
    entries: list[ResponseEntryData] = field(default_factory=list)
