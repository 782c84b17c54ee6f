"""ListGroups (16), v0-5: the groups this broker coordinates.

v3 flexible, v4 filter by state (KIP-518), v5 filter by type (KIP-848).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import IGNORABLE, Since, int16, int32, message, struct


@message(api_key=16, versions=range(6), flexible_from=3)
class ListGroupsRequest:
    states_filter: Annotated[list[str], Since(4)] = field(default_factory=list)
    types_filter: Annotated[list[str], Since(5)] = field(default_factory=list)


@struct
class ListedGroup:
    group_id: str = ""
    protocol_type: str = ""
    group_state: Annotated[str, Since(4), IGNORABLE] = ""
    group_type: Annotated[str, Since(5), IGNORABLE] = ""


@message(api_key=16, versions=range(6), flexible_from=3)
class ListGroupsResponse:
    throttle_time_ms: Annotated[int32, Since(1), IGNORABLE] = 0
    error_code: int16 = 0
    groups: list[ListedGroup] = field(default_factory=list)
