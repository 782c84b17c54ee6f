"""DescribeAcls (29), v1-3: list access rules that match a filter.

v1 pattern types (KIP-290), v2 flexible, v3 the user resource.
"""

from __future__ import annotations

from dataclasses import field

from headrace.wire.notation import int8, int16, int32, message, struct


@message(api_key=29, versions=range(1, 4), flexible_from=2)
class DescribeAclsRequest:
    resource_type_filter: int8 = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: int8 = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: int8 = 0
    permission_type: int8 = 0


@struct
class AclDescription:
    principal: str = ""
    host: str = ""
    operation: int8 = 0
    permission_type: int8 = 0  # 2 deny, 3 allow


@struct
class DescribeAclsResource:
    resource_type: int8 = 0
    resource_name: str = ""
    pattern_type: int8 = 3
    acls: list[AclDescription] = field(default_factory=list)


@message(api_key=29, versions=range(1, 4), flexible_from=2)
class DescribeAclsResponse:
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = ""
    resources: list[DescribeAclsResource] = field(default_factory=list)
