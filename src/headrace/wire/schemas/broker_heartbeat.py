"""BrokerHeartbeat (63), v0-2: a broker is alive, and how far it has replayed.

v1 failed log directories (KIP-858), v2 cordoned ones (KIP-1066).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import Since, Tag, int16, int32, int64, message, uuid


@message(api_key=63, versions=range(3), flexible_from=0)
class BrokerHeartbeatRequest:
    broker_id: int32 = 0
    broker_epoch: int64 = -1
    current_metadata_offset: int64 = 0  # replayed up to here
    want_fence: bool = False  # stay or become fenced
    want_shut_down: bool = False  # leaders may be moved away first
    offline_log_dirs: Annotated[list[uuid], Since(1), Tag(0)] = field(default_factory=list)
    cordoned_log_dirs: Annotated[list[uuid] | None, Since(2), Tag(1)] = None


@message(api_key=63, versions=range(3), flexible_from=0)
class BrokerHeartbeatResponse:
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False
