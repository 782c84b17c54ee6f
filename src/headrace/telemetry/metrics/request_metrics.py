"""Kafka's RequestMetrics: how many requests of each kind there were, how long they took, how large they are.

Every request costs one addition. One in sixteen is looked at, of Produce and Fetch one in sixty-four: its
phases are timed and its sizes noted, which shows the distribution as well and costs that part of it.

    read ── queue ── begun ── local, remote ── replied ── response queue ── offered ── response send ── sent

It is read from its connection, and begun when the requests before it are done. Local is the time in which
the loop works on it, remote that in which it waits: for other replicas, the disk, records or the controller,
and between slices for other requests. Its reply waits for those before it, and is sent when the kernel has
all of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from typing import Any, Final

from headrace.telemetry.metrics.histogram import BYTES, MILLISECONDS, Histogram

SAMPLED: Final = 15
"""A request is looked at where its number has none of these bits."""
SAMPLED_DATA: Final = 63
"""The same for Produce and Fetch: to look at one costs some 5 µs, which is a third of a small one."""

_DATA: Final = ("Produce", "Fetch")

PHASES: Final = (
    *("request_queue", "local", "remote", "throttle"),
    *("response_queue", "response_send", "total"),
)
SIZES: Final = ("request_bytes", "response_bytes")

_MS: Final = 1e-6


class KindMetrics:
    """The histograms of one request kind."""

    __slots__ = (*PHASES, *SIZES)

    def __init__(self) -> None:
        self.request_queue = Histogram(MILLISECONDS)
        self.local = Histogram(MILLISECONDS)
        self.remote = Histogram(MILLISECONDS)
        self.throttle = Histogram(MILLISECONDS)
        self.response_queue = Histogram(MILLISECONDS)
        self.response_send = Histogram(MILLISECONDS)
        self.total = Histogram(MILLISECONDS)
        self.request_bytes = Histogram(BYTES)
        self.response_bytes = Histogram(BYTES)


class RequestMetrics:
    """Requests of one kind and version; histograms are of the kind."""

    __slots__ = ("count", "kind", "sampled")

    def __init__(self, kind: KindMetrics, sampled: int) -> None:
        self.count = 0
        self.kind = kind
        self.sampled = sampled


class RequestTimes:
    """The phases of one request that is looked at, or of a run of them that is served at once. Whoever sends
    its reply tells when that was offered to the kernel, and when it was sent.
    """

    __slots__ = (
        *("_begun_ns", "_kind", "_local_ns", "_now_ns", "_offered_ns", "_read_ns", "_replied_ns"),
        *("_working_since_ns", "request_bytes", "requests", "response_bytes", "throttle_ms"),
    )

    def __init__(
        self, kind: KindMetrics, now_ns: Callable[[], int], *, read_ns: int, request_bytes: int
    ) -> None:
        self._kind = kind
        self._now_ns = now_ns
        self._begun_ns = self._working_since_ns = now_ns()
        self._read_ns = read_ns or self._begun_ns
        self._local_ns = 0
        self.request_bytes = request_bytes
        self.response_bytes = 0
        self.requests = 1  # that are served together
        self.throttle_ms = 0  # what its client was told to wait
        self._replied_ns = self._offered_ns = 0

    def pause(self) -> None:
        """The loop does something else from now on: the request waits."""
        if self._working_since_ns:
            self._local_ns += self._now_ns() - self._working_since_ns
            self._working_since_ns = 0

    def in_slices(self, work: Generator[Any, None, None]) -> Generator[Any, None, None]:
        """Work on it that is done in slices, each of which is local time."""
        while not self._replied_ns:
            self._working_since_ns = self._now_ns()
            try:
                awaited = next(work)
            except StopIteration:
                return
            finally:
                self.pause()
            yield awaited
        yield from work

    def replied(self, throttle_ms: int = 0) -> None:
        """The reply is there."""
        self._replied_ns = now_ns = self._now_ns()
        if self._working_since_ns:
            self._local_ns += now_ns - self._working_since_ns
            self._working_since_ns = 0
        self.throttle_ms = throttle_ms

    def offered(self) -> None:
        """The kernel is given the first of it."""
        if not self._offered_ns:
            self._offered_ns = self._now_ns()

    def sent(self) -> None:
        """The kernel has all of it, or there is nothing to be sent."""
        sent_ns = self._now_ns()
        replied_ns = self._replied_ns
        offered_ns = self._offered_ns or replied_ns
        kind, local_ns = self._kind, self._local_ns
        kind.request_queue.observe((self._begun_ns - self._read_ns) * _MS)
        kind.local.observe(local_ns * _MS / self.requests)
        kind.remote.observe((replied_ns - self._begun_ns - local_ns) * _MS)
        kind.throttle.observe(self.throttle_ms)
        kind.response_queue.observe((offered_ns - replied_ns) * _MS)
        kind.response_send.observe((sent_ns - offered_ns) * _MS)
        kind.total.observe((sent_ns - self._read_ns) * _MS)
        kind.request_bytes.observe(self.request_bytes)
        kind.response_bytes.observe(self.response_bytes / self.requests)


class RequestChannelMetrics:
    """All requests of a node. Kinds, versions and error codes are the protocol's, so there are few."""

    def __init__(self) -> None:
        self.by_version: dict[tuple[str, int], RequestMetrics] = {}
        self.by_kind: dict[str, KindMetrics] = {}
        self.errors: Counter[tuple[str, int]] = Counter()

    def of(self, kind: str, version: int) -> RequestMetrics:
        found = self.by_version.get((kind, version))
        if found is None:
            of_kind = self.by_kind.get(kind)
            if of_kind is None:
                of_kind = self.by_kind[kind] = KindMetrics()
            sampled = SAMPLED_DATA if kind in _DATA else SAMPLED
            found = self.by_version[kind, version] = RequestMetrics(of_kind, sampled)
        return found
