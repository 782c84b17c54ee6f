"""Heartbeat (12), v0-4: a classic group's member is alive.

v1 throttle time, v3 static members (KIP-345), v4 flexible.
"""

from __future__ import annotations

from typing import Annotated

from headrace.wire.notation import IGNORABLE, Since, int16, int32, message


@message(api_key=12, versions=range(5), flexible_from=4)
class HeartbeatRequest:
    group_id: str = ""
    generation_id: int32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, Since(3)] = None  # static membership (KIP-345)


@message(api_key=12, versions=range(5), flexible_from=4)
class HeartbeatResponse:
    throttle_time_ms: Annotated[int32, Since(1), IGNORABLE] = 0
    error_code: int16 = 0
