"""AddRaftVoter (80), v0-1: a controller that follows the metadata log joins the quorum as a voter.

KIP-853. Needs kraft.version 1. One change at a time, and only by one that has caught up: REQUEST_TIMED_OUT
otherwise. v1 may answer before the change is committed.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import NO_UUID, Since, int16, int32, message, struct, uint16, uuid


@struct
class Listener:
    name: str = ""
    host: str = ""
    port: uint16 = 0


@message(api_key=80, versions=range(2), flexible_from=0)
class AddRaftVoterRequest:
    cluster_id: str | None = ""
    timeout_ms: int32 = 0
    voter_id: int32 = 0
    voter_directory_id: uuid = NO_UUID
    listeners: list[Listener] = field(default_factory=list)
    ack_when_committed: Annotated[bool, Since(1)] = True


@message(api_key=80, versions=range(2), flexible_from=0)
class AddRaftVoterResponse:
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = ""
