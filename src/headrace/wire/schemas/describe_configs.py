"""DescribeConfigs (32), v1-4: settings of topics, brokers, groups and other resources.

v1 sources and synonyms, v3 types and documentation (KIP-569), v4 flexible.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from headrace.wire.notation import IGNORABLE, Since, int8, int16, int32, message, struct

DOCUMENTATION_SINCE: Final = 3  # KIP-569


@struct
class DescribeConfigsResource:
    resource_type: int8 = 0
    resource_name: str = ""
    configuration_keys: list[str] | None = field(default_factory=list)  # null asks for all


@message(api_key=32, versions=range(1, 5), flexible_from=4)
class DescribeConfigsRequest:
    resources: list[DescribeConfigsResource] = field(default_factory=list)
    include_synonyms: bool = False
    include_documentation: Annotated[bool, Since(3)] = False


@struct
class DescribeConfigsSynonym:
    name: str = ""
    value: str | None = ""
    source: int8 = 0


@struct
class DescribeConfigsResourceResult:
    name: str = ""
    value: str | None = ""
    read_only: bool = False
    # 1 topic, 2 broker, 3 all brokers, 4 properties file, 5 default, 6 logger, 7 client metrics, 8 group
    config_source: int8 = -1
    is_sensitive: bool = False
    synonyms: list[DescribeConfigsSynonym] = field(default_factory=list)
    # 1 boolean, 2 string, 3 int, 4 short, 5 long, 6 double, 7 list, 8 class, 9 password
    config_type: Annotated[int8, Since(3), IGNORABLE] = 0
    documentation: Annotated[str | None, Since(3), IGNORABLE] = ""


@struct
class DescribeConfigsResult:
    error_code: int16 = 0
    error_message: str | None = ""
    resource_type: int8 = 0
    resource_name: str = ""
    configs: list[DescribeConfigsResourceResult] = field(default_factory=list)


@message(api_key=32, versions=range(1, 5), flexible_from=4)
class DescribeConfigsResponse:
    throttle_time_ms: int32 = 0
    results: list[DescribeConfigsResult] = field(default_factory=list)
