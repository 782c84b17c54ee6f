"""LeaveGroup (13), v0-5: members leave a classic group.

Until v2 one member leaves; from v3 on a list, by member id or instance id. v4 flexible, v5 a reason
(KIP-800).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from headrace.wire.notation import IGNORABLE, Since, Until, int16, int32, message, struct

MEMBERS_SINCE: Final = 3  # several members in one request (KIP-345)


@struct
class MemberIdentity:
    member_id: str = ""
    group_instance_id: str | None = None  # static membership (KIP-345)
    reason: Annotated[str | None, Since(5), IGNORABLE] = None


@message(api_key=13, versions=range(6), flexible_from=4)
class LeaveGroupRequest:
    group_id: str = ""
    member_id: Annotated[str, Until(2)] = ""
    members: Annotated[list[MemberIdentity], Since(3)] = field(default_factory=list)


@struct
class MemberResponse:
    member_id: str = ""
    group_instance_id: str | None = ""
    error_code: int16 = 0


@message(api_key=13, versions=range(6), flexible_from=4)
class LeaveGroupResponse:
    throttle_time_ms: Annotated[int32, Since(1), IGNORABLE] = 0
    error_code: int16 = 0
    members: Annotated[list[MemberResponse], Since(3)] = field(default_factory=list)
