"""What clients are refused and what takes long, summed up: nobody fills the log by asking.

The first refusal of a request kind with an error is told at once, with who asked; those after it are
counted and told once in a while. Errors on which clients look elsewhere or ask again are ordinary, and told
at debug. Slow requests are told with who asked, and how long it took. On the data path no request is timed
by itself: a connection's turn is, with all that was served in it (`transport/serving_turns.py`), and the
wait of a Produce for its replicas or its disk. Of what waits by choice (fetches, joining a group) only the
local part counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.telemetry.limited_log import LimitedLog
from headrace.telemetry.metrics.request_metrics import RequestChannelMetrics
from headrace.wire.apis import API, Api, ApiKey

if TYPE_CHECKING:
    from headrace.server.context import Peer, RequestContext
    from headrace.server.forwarding import Handler

logger = logging.getLogger(__name__)

SUM_S: Final = 60.0
ITEMS_MAX: Final = 100
"""Of one reply are looked at."""

NOT_TIMED: Final = frozenset(
    {
        *(ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.OFFSET_COMMIT),
        *(ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP),
        *(ApiKey.BROKER_HEARTBEAT, ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH),
    }
)

ORDINARY: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)

RESULTS: Final = ("topics", "responses", "results", "groups", "coordinators")

_Kind = tuple[str, int]


class RequestLog:
    """The refused and slow requests of one node."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, slow_ms: int) -> None:
        self._loop = loop
        self.slow_ms = slow_ms
        self.slow_s = slow_ms / 1000
        self._slow = LimitedLog(loop.time, logger, logging.WARNING)
        # Of those whom the authorizer refused, under the name that stands for Kafka's authorizer logger.
        self.denials = LimitedLog(loop.time, logging.getLogger("headrace.server.authorizer"), logging.INFO)
        self._seen: set[_Kind] = set()
        self._counts: dict[_Kind, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.metrics = RequestChannelMetrics()

    def refuse(self, api_key: int, code: int, message: str | None, context: RequestContext) -> None:
        """A request, or a part of one, is answered with an error."""
        kind = API[ApiKey(api_key)].name, int(code)
        self.metrics.errors[kind] += 1
        if kind in self._seen:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            return
        self._seen.add(kind)
        level = logging.DEBUG if code in ORDINARY else logging.INFO
        logger.log(
            level,
            "%s of %s: %s%s",
            kind[0],
            _who(context),
            error_name(code),
            f", {message}" if message else "",
        )
        if self._timer is None:
            self._timer = self._loop.call_later(SUM_S, self._tell)

    def _tell(self) -> None:
        self._timer = None
        counts, self._counts = self._counts, {}
        self._seen = set(counts)  # what has ceased is told at once when it begins again
        for level in (logging.INFO, logging.DEBUG):
            told = [
                f"{count} {name} with {error_name(code)}"
                for (name, code), count in sorted(counts.items())
                if (code in ORDINARY) == (level == logging.DEBUG)
            ]
            if told:
                logger.log(level, "refused in the last %d s: %s", int(SUM_S), ", ".join(told))
        if counts:
            self._timer = self._loop.call_later(SUM_S, self._tell)

    def stop(self) -> None:
        """Tell what was counted, and count no further."""
        if self._timer is not None:
            self._timer.cancel()
            self._tell()
        if self._timer is not None:
            self._timer.cancel()

    def watched(self, api: Api, handle: Handler) -> Handler:
        """The handler of a request kind, its replies timed and looked at."""
        if api.key in NOT_TIMED:
            return handle
        time, slow_s = self._loop.time, self.slow_s

        def watched(context: RequestContext, request: Any) -> Any:
            began = time()
            result = handle(context, request)
            if asyncio.isfuture(result):
                result.add_done_callback(lambda done: self._replied(api, context, began, done))
            else:
                took = time() - began
                if took >= slow_s:
                    self._tell_slow(api, context, took)
                self._look_at(api, context, result)
            return result

        return watched

    def _replied(self, api: Api, context: RequestContext, began: float, done: asyncio.Future[Any]) -> None:
        took = self._loop.time() - began
        if took >= self.slow_s:
            self._tell_slow(api, context, took)
        if not done.cancelled() and done.exception() is None:
            self._look_at(api, context, done.result())

    def _tell_slow(self, api: Api, context: RequestContext, took_s: float) -> None:
        self._slow.write("%s of %s took %d ms", api.name, _who(context), int(took_s * 1000))

    def tell_long_turn(self, peer: Peer, spent_ns: int) -> None:
        """A connection was served for so long at once: what was asked last took most of it."""
        last = peer.last_request
        kind = API[ApiKey.PRODUCE] if last is None else API[ApiKey(last.api_key)]
        who = f"a client at {peer}" if last is None else f"client {last.client_id!r} at {peer}"
        self._slow.write("%s of %s kept the node busy for %d ms", kind.name, who, spent_ns // 1_000_000)

    def tell_waited(
        self,
        topic_partition: TopicPartition,
        who: Peer | RequestContext | None,
        took_s: float,
        *,
        for_disk: bool,
    ) -> None:
        """An append was safe in time, but late."""
        by = "a transaction's coordinator" if who is None else _who(who)
        what = "flushed" if for_disk else "replicated"
        self._slow.write(
            "Produce of %s: %s was %s after %d ms", by, topic_partition, what, int(took_s * 1000)
        )

    def tell_late(self, topic_partition: TopicPartition, timeout_ms: int) -> None:
        """An append was not safe in time."""
        self._slow.write(
            "%s: an append is neither replicated nor flushed after %d ms, and its producer is told so",
            *(topic_partition, timeout_ms),
        )

    def _look_at(self, api: Api, context: RequestContext, response: Any) -> None:
        for code, message in _errors(response):
            self.refuse(api.key, code, message, context)


@cache
def _lists_of(response: type[object]) -> tuple[str, ...]:
    """Where replies of a kind have results."""
    return tuple(name for name in RESULTS if name in getattr(response, "__annotations__", {}))


def _errors(response: Any) -> Iterable[tuple[int, str | None]]:
    """Error codes of a reply, at its top or in its list of results."""
    code = getattr(response, "error_code", 0)
    if code:
        yield code, getattr(response, "error_message", None)
        return
    for name in _lists_of(type(response)):  # type: ignore[arg-type]  # a class can be hashed
        for item in (getattr(response, name) or ())[:ITEMS_MAX]:
            code = getattr(item, "error_code", 0)
            if code:
                yield code, getattr(item, "error_message", None)


def _who(asked: RequestContext | Peer) -> str:
    """By its name, where it was read: those of a run in the produce lane are not."""
    name = getattr(asked, "client_id", None)
    return f"a client at {asked}" if name is None else f"client {name!r} at {getattr(asked, 'peer', asked)}"


def error_name(code: int) -> str:
    """Kafka's word for an error code."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"
