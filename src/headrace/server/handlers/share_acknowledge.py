"""ShareAcknowledge (79), v1-v2: acknowledge records of a share group (KIP-932).

Answered when what it says is kept by the share coordinator. v2: renewals of locks (KIP-1222), with
`is_renew_ack` in the request.

Checks, in order: share groups offered? group and member named? the session as the member believes? then of
each partition: may be read? batches in order, their types known? topic known? leader here? every record
acquired by this member? Epoch -1 closes the session: what the member still holds is released.
"""

from __future__ import annotations

from asyncio import Future

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.futures import completer
from headrace.server.context import RequestContext
from headrace.server.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH
from headrace.server.long_requests import Slices
from headrace.server.metadata_cache import LEADER_ERRORS, addresses, leader_of
from headrace.server.share.acknowledging import (
    Outcomes,
    acknowledge_all,
    acknowledge_in_slices,
    answers_in_slices,
    answers_of,
    enabled_manager,
    readable_topics,
)
from headrace.server.share.share_partition_manager import SharePartitionManager
from headrace.wire.schemas.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)


def handle(
    context: RequestContext, request: ShareAcknowledgeRequest
) -> ShareAcknowledgeResponse | Future[ShareAcknowledgeResponse]:
    context.peer.release_long_polls()
    group_id, member_id = request.group_id or "", request.member_id or ""
    try:
        manager = enabled_manager(context)
        answers = answers_of(request.topics)
        _go_on(manager, request)
    except ApiError as error:
        return ShareAcknowledgeResponse(error_code=error.code, error_message=error.message)
    reply: Future[ShareAcknowledgeResponse] = context.parts.loop.create_future()
    complete = completer(reply)
    lock_ms = manager.config_of(group_id).lock_duration_ms

    def done(outcomes: Outcomes) -> None:
        complete(_response(context, outcomes, lock_ms))

    may_renew, may_read = request.is_renew_ack, readable_topics(context)
    acknowledge_all(context, manager, group_id, member_id, answers, may_renew, may_read, done)
    if request.share_session_epoch == FINAL_EPOCH:
        manager.close_session(group_id, member_id)
    return reply


def handle_in_slices(
    context: RequestContext, request: ShareAcknowledgeRequest
) -> Slices[ShareAcknowledgeResponse]:
    """The same of many partitions."""
    context.peer.release_long_polls()
    group_id, member_id = request.group_id or "", request.member_id or ""
    try:
        manager = enabled_manager(context)
        answers = yield from answers_in_slices(request)
        _go_on(manager, request)
    except ApiError as error:
        return ShareAcknowledgeResponse(error_code=error.code, error_message=error.message)
    lock_ms = manager.config_of(group_id).lock_duration_ms
    may_renew, may_read = request.is_renew_ack, readable_topics(context)
    acknowledging = acknowledge_in_slices(context, manager, group_id, member_id, answers, may_renew, may_read)
    outcomes = yield from acknowledging
    if request.share_session_epoch == FINAL_EPOCH:
        manager.close_session(group_id, member_id)
    return _response(context, outcomes, lock_ms)


def _go_on(manager: SharePartitionManager, request: ShareAcknowledgeRequest) -> None:
    """Whether the member may say this now, by the session that it has."""
    if not request.group_id or not request.member_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, "a group id and a member id are needed")
    if request.share_session_epoch == INITIAL_EPOCH:
        raise ApiError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    manager.sessions.go_on(request.group_id, request.member_id, request.share_session_epoch)


def _response(context: RequestContext, outcomes: Outcomes, lock_ms: int) -> ShareAcknowledgeResponse:
    image, leaders = context.parts.image, set()
    by_topic: dict[bytes, list[PartitionData]] = {}
    for (topic_id, index), outcome in outcomes.items():
        data = PartitionData(index, outcome.error_code, outcome.message)
        by_topic.setdefault(topic_id, []).append(data)
        leader = leader_of(image, "", topic_id, index) if outcome.error_code in LEADER_ERRORS else None
        if leader is not None:
            data.current_leader = LeaderIdAndEpoch(*leader)
            leaders.add(leader.id)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=lock_ms,
        responses=[ShareAcknowledgeTopicResponse(*each) for each in by_topic.items()],
        node_endpoints=[NodeEndpoint(*each) for each in addresses(image, leaders, context.peer.listener)],
    )
