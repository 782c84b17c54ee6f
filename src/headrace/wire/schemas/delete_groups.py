"""DeleteGroups (42), v0-2: delete groups that have no members.

v2 flexible.
"""

from __future__ import annotations

from dataclasses import field

from headrace.wire.notation import int16, int32, message, struct


@message(api_key=42, versions=range(3), flexible_from=2)
class DeleteGroupsRequest:
    groups_names: list[str] = field(default_factory=list)


@struct
class DeletableGroupResult:
    group_id: str = ""
    error_code: int16 = 0


@message(api_key=42, versions=range(3), flexible_from=2)
class DeleteGroupsResponse:
    throttle_time_ms: int32 = 0
    results: list[DeletableGroupResult] = field(default_factory=list)
