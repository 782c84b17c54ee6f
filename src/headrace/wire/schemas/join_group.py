"""JoinGroup (11), v0-9: enter a classic group and wait for its next generation.

v1 separates the rebalance time-out from the session time-out, v4 makes a new member come back with the id
it was given, v5 static members (KIP-345), v6 flexible, v7 the protocol type in the reply, v8 a reason for
the log, v9 lets the leader skip the assignment.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from headrace.wire.notation import IGNORABLE, Nullable, Since, int16, int32, message, struct

MEMBER_ID_REQUIRED_SINCE: Final = 4  # KIP-394
NULL_PROTOCOL_SINCE: Final = 7  # KIP-559
SKIP_ASSIGNMENT_SINCE: Final = 9  # KIP-814


@struct
class JoinGroupRequestProtocol:
    name: str = ""
    metadata: bytes = b""


@message(api_key=11, versions=range(10), flexible_from=6)
class JoinGroupRequest:
    group_id: str = ""
    session_timeout_ms: int32 = 0
    # v0 has none: the session time-out counts for both
    rebalance_timeout_ms: Annotated[int32, Since(1), IGNORABLE] = -1
    member_id: str = ""
    group_instance_id: Annotated[str | None, Since(5)] = None  # static membership (KIP-345)
    protocol_type: str = ""
    protocols: list[JoinGroupRequestProtocol] = field(default_factory=list)  # in order of preference
    reason: Annotated[str | None, Since(8), IGNORABLE] = None


@struct
class JoinGroupResponseMember:
    member_id: str = ""
    group_instance_id: Annotated[str | None, Since(5), IGNORABLE] = None
    metadata: bytes = b""


@message(api_key=11, versions=range(10), flexible_from=6)
class JoinGroupResponse:
    throttle_time_ms: Annotated[int32, Since(2), IGNORABLE] = 0
    error_code: int16 = 0
    generation_id: int32 = -1
    protocol_type: Annotated[str | None, Since(7), IGNORABLE] = None
    protocol_name: Annotated[str | None, Nullable(7)] = ""
    leader: str = ""
    # a returning static leader need not assign anew (KIP-814)
    skip_assignment: Annotated[bool, Since(9)] = False
    member_id: str = ""
    members: list[JoinGroupResponseMember] = field(default_factory=list)  # for the leader only
