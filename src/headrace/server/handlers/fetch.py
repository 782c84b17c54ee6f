"""Fetch (1), v4-v18: read records from partitions, waiting for them where there are too few.

A session (KIP-227) says which partitions are wanted. Each is read up to what its reader may see: the high
watermark, or the last stable offset for read_committed. The first partition with data gives at least one
batch whatever the limits, so that a large batch cannot block a reader; the last batch may be cut. With fewer
than `min_bytes` and no error the request waits, up to `max_wait_ms`, for a watched partition to move. A
partition that does not exist does not end the wait, unless nothing else is wanted: a consumer would ask again
at once. Records are slices of segment files: the kernel sends them, this code never sees them. Those of the
remote tier come from memory; while they are fetched the wait is `remote.fetch.max.wait.ms`, as in Kafka.

A follower (its replica id is not negative) reads up to the end of the log, and by what it asks for tells how
far it is: see `server/delayed_follower_fetch.py`.

Checks, in order: an isolation level that there is? the session as the client believes? then of each
partition: may be read, or (by a follower) may the asker act for the cluster? known? its leader epoch ours
(v9, KIP-320)? leader here, or (v11, KIP-392) a follower that a consumer may read? the reader's last epoch not
diverging (v12, KIP-595)? offset within the log (where it is past its end: this node sure to lead)? v13:
topics by id. v15: a follower's broker epoch (KIP-903). v16: leaders are told (KIP-951).
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Generator
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.replication.partition import READ_COMMITTED
from headrace.server.authorizer import (
    CLUSTER_NAME,
    Operation,
    Resource,
    allows,
    is_configured,
    may_act_for_cluster,
    tell_denied,
)
from headrace.server.context import RequestContext
from headrace.server.delayed_fetch import UNKNOWN, DelayedFetch
from headrace.server.delayed_follower_fetch import DelayedFollowerFetch
from headrace.server.fetch_sessions import Answer, FetchContext
from headrace.server.long_requests import Slices
from headrace.server.request_pieces import has_more
from headrace.wire.schemas.fetch import FetchRequest, FetchResponse

FOLLOWERS_WAIT_MS: Final = 1000
"""How long an answer that rests on the followers' word may take: they are asked at once."""


MANY_PARTITIONS: Final = 1024
"""A consumer's session with more of them is read in slices: up to here it takes some milliseconds."""

UNKNOWN_MAX: Final = 256
"""Of more partitions that do not exist a client hears at once, as it does of any from Apache Kafka: else each
look at those that it waits for would look at them again."""

_Answer = FetchResponse | Future[FetchResponse]


def handle(context: RequestContext, request: FetchRequest) -> _Answer | Slices[_Answer]:
    """Read now; answer if there is enough, else wait."""
    parts = context.parts
    is_follower = _replica_id(request) >= 0
    if request.isolation_level > READ_COMMITTED or request.isolation_level < 0:
        return FetchResponse(error_code=ErrorCode.INVALID_REQUEST)
    fetch = parts.sessions.begin(
        request, context.api_version, parts.clock.monotonic_ms(), follower=is_follower
    )
    return _read(context, request, fetch, is_follower=is_follower)


def handle_in_slices(context: RequestContext, request: FetchRequest) -> _Answer | Slices[_Answer]:
    """The same for a consumer that names many partitions."""
    is_follower = _replica_id(request) >= 0
    is_short = is_follower or not has_more(request, ("topics", "partitions"), MANY_PARTITIONS)
    if is_short or request.isolation_level not in (0, READ_COMMITTED):
        return handle(context, request)
    return _begin_in_slices(context, request)


def _begin_in_slices(context: RequestContext, request: FetchRequest) -> Slices[_Answer]:
    parts = context.parts
    fetch = yield from parts.sessions.begin_in_slices(
        request, context.api_version, parts.clock.monotonic_ms()
    )
    result = _read(context, request, fetch, is_follower=False)
    return (yield from result) if isinstance(result, Generator) else result


def _replica_id(request: FetchRequest) -> int:
    return request.replica_id if request.replica_state is None else request.replica_state.replica_id


def _read(
    context: RequestContext, request: FetchRequest, fetch: FetchContext | FetchResponse, *, is_follower: bool
) -> _Answer | Slices[_Answer]:
    parts = context.parts
    if isinstance(fetch, FetchResponse):
        return fetch
    may_follow = is_follower and _may_follow(context)
    reading = (
        DelayedFollowerFetch(context, request, fetch)
        if may_follow
        else parts.quotas.new_fetch(context, request, fetch)
    )
    if is_configured(parts.authorizer) and not may_follow:
        reading.may_read = _nothing if is_follower else _readable(context)
    if len(fetch.partitions) > MANY_PARTITIONS and not may_follow:
        return _read_in_slices(context, request, reading, is_follower=is_follower)
    return _answer(context, request, reading, reading.read_all(), is_follower=is_follower)


def _read_in_slices(
    context: RequestContext, request: FetchRequest, reading: DelayedFetch, *, is_follower: bool
) -> Slices[_Answer]:
    answers = yield from reading.read_in_slices()
    unknown = sum(data.error_code in UNKNOWN for _, data in answers)
    if reading.is_enough or request.max_wait_ms <= 0 or unknown > UNKNOWN_MAX:
        return reading.finish(answers)
    # What came meanwhile to partitions that were read first must not wait for more.
    return _answer(context, request, reading, reading.read_all(), is_follower=is_follower)


def _answer(
    context: RequestContext,
    request: FetchRequest,
    reading: DelayedFetch,
    answers: list[Answer],
    *,
    is_follower: bool,
) -> _Answer:
    parts = context.parts
    wait_ms = request.max_wait_ms
    if reading.awaits_remote:
        wait_ms = parts.config.int("remote.fetch.max.wait.ms")
    elif reading.awaits_followers:
        wait_ms = max(wait_ms, FOLLOWERS_WAIT_MS)
    if reading.is_enough or wait_ms <= 0:
        return reading.finish(answers)
    waiting = parts.purgatory.watch(reading.keys(), reading.attempt, wait_ms)
    if is_follower:
        reading.fetch.on_next_request(lambda: _hurry(waiting, reading))
    else:
        context.peer.add_long_poll(waiting, lambda: _hurry(waiting, reading))
    return waiting


def _may_follow(context: RequestContext) -> bool:
    """Whoever says to be a follower must have the authority of a node (CVE-2018-1288)."""
    if may_act_for_cluster(context):
        return True
    tell_denied(context, Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME)
    return False


def _nothing(topic: str) -> bool:
    return False


def _readable(context: RequestContext) -> Callable[[str], bool]:
    """Which topics a consumer may read; one that is unknown by its id is told so."""

    def may_read(topic: str) -> bool:
        if not topic or allows(context, Operation.READ, Resource.TOPIC, topic):
            return True
        tell_denied(context, Operation.READ, Resource.TOPIC, topic)
        return False

    return may_read


def _hurry(waiting: Future[FetchResponse], reading: DelayedFetch) -> None:
    """Who waits has more to ask, and replies leave in order: it shall not wait for this one.

    A consumer whose coordinator died asks for the next one behind its fetch. librdkafka needs to know within
    100 ms: a commit that it tries again by then breaks the next coordinator's connection, over and over.
    """
    if not waiting.done():
        waiting.set_result(reading.finish(reading.read_all()))
