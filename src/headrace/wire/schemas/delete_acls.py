"""DeleteAcls (31), v1-3: remove access rules that match filters.

v1 pattern types (KIP-290), v2 flexible, v3 the user resource.
"""

from __future__ import annotations

from dataclasses import field

from headrace.wire.notation import int8, int16, int32, message, struct


@struct
class DeleteAclsFilter:
    resource_type_filter: int8 = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: int8 = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: int8 = 0
    permission_type: int8 = 0


@message(api_key=31, versions=range(1, 4), flexible_from=2)
class DeleteAclsRequest:
    filters: list[DeleteAclsFilter] = field(default_factory=list)


@struct
class DeleteAclsMatchingAcl:
    error_code: int16 = 0
    error_message: str | None = ""
    resource_type: int8 = 0
    resource_name: str = ""
    pattern_type: int8 = 3
    principal: str = ""
    host: str = ""
    operation: int8 = 0
    permission_type: int8 = 0


@struct
class DeleteAclsFilterResult:
    error_code: int16 = 0
    error_message: str | None = ""
    matching_acls: list[DeleteAclsMatchingAcl] = field(default_factory=list)


@message(api_key=31, versions=range(1, 4), flexible_from=2)
class DeleteAclsResponse:
    throttle_time_ms: int32 = 0
    filter_results: list[DeleteAclsFilterResult] = field(default_factory=list)
