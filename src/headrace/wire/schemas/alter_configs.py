"""AlterConfigs (33), v0-2: replace all settings of a resource.

What is not named falls back to its default; IncrementalAlterConfigs does not have that trap. v2 flexible.
"""

from __future__ import annotations

from dataclasses import field

from headrace.wire.notation import int8, int16, int32, message, struct


@struct
class AlterableConfig:
    name: str = ""
    value: str | None = field(default="", repr=False)  # it may be a password


@struct
class AlterConfigsResource:
    resource_type: int8 = 0
    resource_name: str = ""
    configs: list[AlterableConfig] = field(default_factory=list)


@message(api_key=33, versions=range(3), flexible_from=2)
class AlterConfigsRequest:
    resources: list[AlterConfigsResource] = field(default_factory=list)
    validate_only: bool = False


@struct
class AlterConfigsResourceResponse:
    error_code: int16 = 0
    error_message: str | None = ""
    resource_type: int8 = 0
    resource_name: str = ""


@message(api_key=33, versions=range(3), flexible_from=2)
class AlterConfigsResponse:
    throttle_time_ms: int32 = 0
    responses: list[AlterConfigsResourceResponse] = field(default_factory=list)
