"""Heartbeat (12), v0-v4: a member of a classic group is alive.

Checks, in order: coordinator here? group known? member known, and its instance still its own? generation
equal? Answers REBALANCE_IN_PROGRESS while members rejoin. v3: static membership (KIP-345).
"""

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.server.context import RequestContext
from headrace.wire.schemas.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    groups = context.parts.groups
    try:
        error = groups.machine_of(request.group_id).protocols.heartbeat(request, now_ms=groups.now_ms())
    except ApiError as refusal:
        # Nothing is lost by a heartbeat that comes too early: the group is being loaded, and remembers its
        # members.
        loading = refusal.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        error = ErrorCode.NONE if loading else refusal.code
    groups.arm()
    return HeartbeatResponse(error_code=error)
