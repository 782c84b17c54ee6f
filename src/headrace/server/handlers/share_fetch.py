"""ShareFetch (78), v1-v2: acquire records of a share group, and acknowledge earlier ones (KIP-932).

A session says which partitions are wanted; the acknowledgements in the request are taken first. With nothing
to acquire the request waits, up to `max_wait_ms`, for a partition to grow or for records that others give
back. v2: `share_acquire_mode` 1 keeps to `max_records` exactly (KIP-1206); a request with `is_renew_ack` only
renews locks and fetches nothing (KIP-1222).

Checks, in order: share groups offered? group and member named? no acknowledgements in a first request? the
session as the member believes? then of each partition: may be read? known? leader here? state loaded? Epoch
-1 closes the session: what the member still holds is released.
"""

from __future__ import annotations

from asyncio import Future
from dataclasses import replace
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.futures import completer
from headrace.server.context import RequestContext
from headrace.server.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH
from headrace.server.long_requests import SLICE_ITEMS, Slices
from headrace.server.metadata_cache import LEADER_ERRORS, addresses, leader_of
from headrace.server.request_pieces import split
from headrace.server.share.acknowledging import (
    Answers,
    Outcomes,
    acknowledge_all,
    acknowledge_in_slices,
    answers_in_slices,
    answers_of,
    enabled_manager,
    readable_topics,
)
from headrace.server.share.delayed_share_fetch import DelayedShareFetch, Found
from headrace.server.share.share_partition_manager import SharePartitionManager
from headrace.server.share.share_sessions import PartitionId, ShareSession
from headrace.wire.schemas.share_fetch import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

PARTITIONS: Final = ("topics", "partitions")

MANY_PARTITIONS: Final = 256
"""A session with more of them is looked at in slices."""

_Answer = ShareFetchResponse | Future[ShareFetchResponse]


def handle(context: RequestContext, request: ShareFetchRequest) -> _Answer | Slices[_Answer]:
    try:
        manager = enabled_manager(context)
        answers = answers_of(request.topics)
        _check(request, answers)
        session = _session(context, manager, request)
        if request.share_session_epoch != FINAL_EPOCH:
            _change(session, request)
    except ApiError as error:
        return ShareFetchResponse(error_code=error.code, error_message=error.message)
    fetching = _Fetching(context, manager, request, session, answers)
    return fetching.run() if len(session.partitions) <= MANY_PARTITIONS else fetching.run_in_slices()


def handle_in_slices(context: RequestContext, request: ShareFetchRequest) -> Slices[_Answer]:
    """The same of many partitions."""
    try:
        manager = enabled_manager(context)
        answers = yield from answers_in_slices(request)
        _check(request, answers)
        session = _session(context, manager, request)
        if request.share_session_epoch != FINAL_EPOCH:
            for piece, _ in split(replace(request, forgotten_topics_data=[]), PARTITIONS, SLICE_ITEMS):
                _change(session, piece)
                yield
            _change(session, replace(request, topics=[]))
    except ApiError as error:
        return ShareFetchResponse(error_code=error.code, error_message=error.message)
    return (yield from _Fetching(context, manager, request, session, answers).run_in_slices())


def _check(request: ShareFetchRequest, answers: Answers) -> None:
    if not request.group_id or not request.member_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, "a group id and a member id are needed")
    if request.share_session_epoch == INITIAL_EPOCH and answers:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, "The initial share fetch request cannot have acknowledgements."
        )
    limits = (request.max_bytes, request.min_bytes, request.max_records, request.max_wait_ms)
    if request.is_renew_ack and any(limits):
        raise ApiError(
            ErrorCode.INVALID_REQUEST, "A request that renews locks fetches nothing: its limits must be 0."
        )


def _session(
    context: RequestContext, manager: SharePartitionManager, request: ShareFetchRequest
) -> ShareSession:
    group_id, member_id = request.group_id or "", request.member_id or ""
    if request.share_session_epoch == INITIAL_EPOCH:
        session = manager.sessions.open(group_id, member_id, context.peer.connection)
        context.peer.when_closed(manager, lambda: manager.close_sessions_of(context.peer.connection))
    else:
        session = manager.sessions.go_on(group_id, member_id, request.share_session_epoch)
    return session


def _change(session: ShareSession, request: ShareFetchRequest) -> None:
    session.change(
        ((each.topic_id, index.partition_index) for each in request.topics for index in each.partitions),
        ((each.topic_id, index) for each in request.forgotten_topics_data for index in each.partitions),
    )


class _Fetching:
    """A request under way: acknowledgements and records, answered when both are there."""

    def __init__(
        self,
        context: RequestContext,
        manager: SharePartitionManager,
        request: ShareFetchRequest,
        session: ShareSession,
        answers: Answers,
    ) -> None:
        self._context = context
        self._manager = manager
        self._request = request
        self._session = session
        self._answers = answers
        self._may_read = readable_topics(context)
        self._outcomes: Outcomes | None = None
        self._found: Found | None = None
        self._reply: Future[ShareFetchResponse] = context.parts.loop.create_future()
        self._complete = completer(self._reply)

    def run(self) -> ShareFetchResponse | Future[ShareFetchResponse]:
        session = self._session
        acknowledge_all(
            self._context,
            self._manager,
            session.group_id,
            session.member_id,
            self._answers,
            self._request.is_renew_ack,
            self._may_read,
            self._acknowledged,
        )
        if self._request.share_session_epoch == FINAL_EPOCH:
            self._manager.close_session(session.group_id, session.member_id)
            self._fetched({})
        elif self._request.is_renew_ack or not session.partitions:
            self._fetched({})
        else:
            self._fetch()
        return self._reply

    def run_in_slices(self) -> Slices[_Answer]:
        """The same of many partitions."""
        session = self._session
        acknowledging = acknowledge_in_slices(
            self._context,
            self._manager,
            session.group_id,
            session.member_id,
            self._answers,
            self._request.is_renew_ack,
            self._may_read,
        )
        self._outcomes = yield from acknowledging
        found: Found | None = {}
        if self._request.share_session_epoch == FINAL_EPOCH:
            self._manager.close_session(session.group_id, session.member_id)
        elif not self._request.is_renew_ack and session.partitions:
            fetch = DelayedShareFetch(self._context, self._request, session, self._may_read)
            found = yield from fetch.attempt_in_slices(self._request.max_wait_ms <= 0)
        if found is None:
            self._fetch()
            return self._reply
        return self._response(self._outcomes, found)

    def _fetch(self) -> None:
        parts = self._context.parts
        fetch = DelayedShareFetch(self._context, self._request, self._session, self._may_read)
        wait_ms = self._request.max_wait_ms
        found = fetch.attempt(wait_ms <= 0)
        if found is not None:
            self._fetched(found)
            return
        waiting = parts.purgatory.watch(fetch.keys(), fetch.attempt, wait_ms)
        waiting.add_done_callback(lambda done: self._fetched({} if done.cancelled() else done.result()))
        self._reply.add_done_callback(lambda reply: waiting.cancel() if not waiting.done() else None)

        def hurry() -> None:
            if not waiting.done():
                waiting.set_result(fetch.attempt(True) or {})

        self._context.peer.add_long_poll(waiting, hurry)

    def _acknowledged(self, outcomes: Outcomes) -> None:
        self._outcomes = outcomes
        self._maybe_reply()

    def _fetched(self, found: Found) -> None:
        self._found = found
        self._maybe_reply()

    def _maybe_reply(self) -> None:
        if self._outcomes is not None and self._found is not None:
            self._complete(self._response(self._outcomes, self._found))

    def _response(self, outcomes: Outcomes, found: Found) -> ShareFetchResponse:
        for partition_id, outcome in outcomes.items():
            data = found.setdefault(partition_id, PartitionData(partition_id[1]))
            data.acknowledge_error_code, data.acknowledge_error_message = outcome
        by_topic: dict[bytes, list[PartitionData]] = {}
        for (topic_id, _), data in found.items():
            by_topic.setdefault(topic_id, []).append(data)
        return ShareFetchResponse(
            acquisition_lock_timeout_ms=self._manager.config_of(self._session.group_id).lock_duration_ms,
            responses=[ShareFetchableTopicResponse(*each) for each in by_topic.items()],
            node_endpoints=self._hint_leaders(found),
        )

    def _hint_leaders(self, found: dict[PartitionId, PartitionData]) -> list[NodeEndpoint]:
        image, leaders = self._context.parts.image, set()
        for (topic_id, index), data in found.items():
            if data.error_code in LEADER_ERRORS or data.acknowledge_error_code in LEADER_ERRORS:
                leader = leader_of(image, "", topic_id, index)
                if leader is not None:
                    data.current_leader = LeaderIdAndEpoch(*leader)
                    leaders.add(leader.id)
        return [NodeEndpoint(*each) for each in addresses(image, leaders, self._context.peer.listener)]
