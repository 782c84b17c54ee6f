"""IncrementalAlterConfigs (44), v0-1: set, delete, append to or subtract from settings.

KIP-339. v1 flexible.
"""

from __future__ import annotations

from dataclasses import field

from headrace.wire.notation import int8, int16, int32, message, struct


@struct
class AlterableConfig:
    name: str = ""
    config_operation: int8 = 0  # 0 set, 1 delete, 2 append, 3 subtract
    value: str | None = field(default="", repr=False)  # it may be a password


@struct
class AlterConfigsResource:
    resource_type: int8 = 0
    resource_name: str = ""
    configs: list[AlterableConfig] = field(default_factory=list)


@message(api_key=44, versions=range(2), flexible_from=1)
class IncrementalAlterConfigsRequest:
    resources: list[AlterConfigsResource] = field(default_factory=list)
    validate_only: bool = False


@struct
class AlterConfigsResourceResponse:
    error_code: int16 = 0
    error_message: str | None = ""
    resource_type: int8 = 0
    resource_name: str = ""


@message(api_key=44, versions=range(2), flexible_from=1)
class IncrementalAlterConfigsResponse:
    throttle_time_ms: int32 = 0
    responses: list[AlterConfigsResourceResponse] = field(default_factory=list)
