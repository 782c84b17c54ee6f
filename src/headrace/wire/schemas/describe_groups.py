"""DescribeGroups (15), v0-6: state and members of classic groups.

v1 throttle time, v3 permitted operations, v4 static members, v5 flexible, v6 an unknown group is an error
with a message instead of a dead group (KIP-1043).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from headrace.wire.notation import IGNORABLE, Since, int16, int32, message, struct

AUTHORIZED_OPERATIONS_SINCE: Final = 3  # KIP-430
GROUP_ID_NOT_FOUND_SINCE: Final = 6  # KIP-1043


@message(api_key=15, versions=range(7), flexible_from=5)
class DescribeGroupsRequest:
    groups: list[str] = field(default_factory=list)
    include_authorized_operations: Annotated[bool, Since(3)] = False


@struct
class DescribedGroupMember:
    member_id: str = ""
    group_instance_id: Annotated[str | None, Since(4), IGNORABLE] = None
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""


@struct
class DescribedGroup:
    error_code: int16 = 0
    error_message: Annotated[str | None, Since(6)] = None
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: list[DescribedGroupMember] = field(default_factory=list)
    authorized_operations: Annotated[int32, Since(3)] = -(2**31)


@message(api_key=15, versions=range(7), flexible_from=5)
class DescribeGroupsResponse:
    throttle_time_ms: Annotated[int32, Since(1), IGNORABLE] = 0
    groups: list[DescribedGroup] = field(default_factory=list)
