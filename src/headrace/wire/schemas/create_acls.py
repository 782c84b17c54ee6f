"""CreateAcls (30), v1-3: add access rules.

v1 pattern types (KIP-290), v2 flexible, v3 the user resource.
"""

from __future__ import annotations

from dataclasses import field

from headrace.wire.notation import int8, int16, int32, message, struct


@struct
class AclCreation:
    resource_type: int8 = 0
    resource_name: str = ""
    resource_pattern_type: int8 = 3
    principal: str = ""
    host: str = ""
    operation: int8 = 0
    permission_type: int8 = 0  # 2 deny, 3 allow


@message(api_key=30, versions=range(1, 4), flexible_from=2)
class CreateAclsRequest:
    creations: list[AclCreation] = field(default_factory=list)


@struct
class AclCreationResult:
    error_code: int16 = 0
    error_message: str | None = ""


@message(api_key=30, versions=range(1, 4), flexible_from=2)
class CreateAclsResponse:
    throttle_time_ms: int32 = 0
    results: list[AclCreationResult] = field(default_factory=list)
