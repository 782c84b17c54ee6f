"""DescribeClientQuotas (48), v0-1: list quotas that match a filter.

KIP-546. v1 flexible.
"""

from __future__ import annotations

from dataclasses import field

from headrace.wire.notation import float64, int8, int16, int32, message, struct


@struct
class ComponentData:
    entity_type: str = ""
    match_type: int8 = 0  # 0 this name, 1 the default, 2 any name
    match: str | None = ""


@message(api_key=48, versions=range(2), flexible_from=1)
class DescribeClientQuotasRequest:
    components: list[ComponentData] = field(default_factory=list)
    strict: bool = False


@struct
class EntityData:
    entity_type: str = ""
    entity_name: str | None = ""  # null is the default entity


@struct
class ValueData:
    key: str = ""
    value: float64 = 0.0


@struct
class EntryData:
    entity: list[EntityData] = field(default_factory=list)
    values: list[ValueData] = field(default_factory=list)


@message(api_key=48, versions=range(2), flexible_from=1)
class DescribeClientQuotasResponse:
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = ""
    entries: list[EntryData] | None = field(default_factory=list)
