"""Heartbeat (12), v0-v4: a member of a classic group is alive.

Checks, in order: coordinator here? group known? member known, and its instance still its own? generation
equal? Answers REBALANCE_IN_PROGRESS while members rejoin. v3: static membership (KIP-345).

While all is well the answer is held back, so that a member hears of a rebalance at once and not with its next
heartbeat (`coordinators/group/held_heartbeats.py`). A reply that is held gives way to the next request on its
connection. It is only done to clients that are known to take it well.
"""

from asyncio import Future

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.futures import completer
from headrace.coordinators.group.group_metadata_manager import GroupMetadataManager
from headrace.coordinators.group.held_heartbeats import hold_policy_of
from headrace.server.context import RequestContext
from headrace.wire.schemas.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(
    context: RequestContext, request: HeartbeatRequest
) -> HeartbeatResponse | Future[HeartbeatResponse]:
    groups = context.parts.groups
    try:
        manager = groups.shard_for(request.group_id).group_metadata_manager
    except ApiError as refusal:
        # Nothing is lost by a heartbeat that comes too early: the group is being loaded, and remembers its
        # members.
        loading = refusal.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return HeartbeatResponse(error_code=ErrorCode.NONE if loading else refusal.code)
    error = manager.classic_group_heartbeat(request, now_ms=groups.now_ms())
    held = _hold(context, manager, request) if error is ErrorCode.NONE else None
    groups.arm()
    return HeartbeatResponse(error_code=error) if held is None else held


def _hold(
    context: RequestContext, manager: GroupMetadataManager, request: HeartbeatRequest
) -> Future[HeartbeatResponse] | None:
    """The answer that comes when there is news; None where the client should have it now."""
    peer = context.peer
    policy = hold_policy_of(peer.software_name, peer.software_version)
    if policy is None:
        return None
    answer: Future[HeartbeatResponse] = context.parts.loop.create_future()
    complete = completer(answer)
    groups = context.parts.groups
    release = manager.hold_heartbeat(
        request,
        policy,
        now_ms=groups.now_ms(),
        answer=lambda error: complete(HeartbeatResponse(error_code=error)),
    )
    if release is None:
        return None
    peer.hold(lambda: release(groups.now_ms(), peer.is_gone))
    return answer
