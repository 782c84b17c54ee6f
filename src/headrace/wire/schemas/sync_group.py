"""SyncGroup (14), v0-5: the leader hands out the assignment, every member collects its own.

v1 throttle time, v3 static members, v4 flexible, v5 protocol type and name so that both sides agree
(KIP-559).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from headrace.wire.notation import IGNORABLE, Since, int16, int32, message, struct

PROTOCOL_SINCE: Final = 5  # KIP-559


@struct
class SyncGroupRequestAssignment:
    member_id: str = ""
    assignment: bytes = b""


@message(api_key=14, versions=range(6), flexible_from=4)
class SyncGroupRequest:
    group_id: str = ""
    generation_id: int32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, Since(3)] = None
    protocol_type: Annotated[str | None, Since(5), IGNORABLE] = None
    protocol_name: Annotated[str | None, Since(5), IGNORABLE] = None
    assignments: list[SyncGroupRequestAssignment] = field(default_factory=list)  # from the leader only


@message(api_key=14, versions=range(6), flexible_from=4)
class SyncGroupResponse:
    throttle_time_ms: Annotated[int32, Since(1), IGNORABLE] = 0
    error_code: int16 = 0
    protocol_type: Annotated[str | None, Since(5), IGNORABLE] = None
    protocol_name: Annotated[str | None, Since(5), IGNORABLE] = None
    assignment: bytes = b""
