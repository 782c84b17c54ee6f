"""DeleteGroups (42), v0-3: delete groups that have no members.

v2 flexible, v3 errors in words (KIP-1331).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import IGNORABLE, Since, int16, int32, message, struct


@message(api_key=42, versions=range(4), flexible_from=2)
class DeleteGroupsRequest:
    groups_names: list[str] = field(default_factory=list)


@struct
class DeletableGroupResult:
    group_id: str = ""
    error_code: int16 = 0
    error_message: Annotated[str | None, Since(3), IGNORABLE] = None


@message(api_key=42, versions=range(4), flexible_from=2)
class DeleteGroupsResponse:
    throttle_time_ms: int32 = 0
    results: list[DeletableGroupResult] = field(default_factory=list)
