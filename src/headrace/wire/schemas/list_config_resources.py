"""ListConfigResources (74), v0-1: names of resources that have settings.

v0 lists client metrics only, v1 any kind (KIP-1142).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from headrace.wire.notation import IGNORABLE, Since, int8, int16, int32, message, struct

RESOURCE_TYPES_SINCE: Final = 1  # KIP-1142


@message(api_key=74, versions=range(2), flexible_from=0)
class ListConfigResourcesRequest:
    resource_types: Annotated[list[int8], Since(1)] = field(default_factory=list)


@struct
class ConfigResource:
    resource_name: str = ""
    resource_type: Annotated[int8, Since(1), IGNORABLE] = 16


@message(api_key=74, versions=range(2), flexible_from=0)
class ListConfigResourcesResponse:
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    config_resources: list[ConfigResource] = field(default_factory=list)
