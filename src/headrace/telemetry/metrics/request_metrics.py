"""Kafka's RequestMetrics: how many requests of each kind there were, how long they took, how large they are.

Every request costs one addition. Its time and size are noted of one in sixteen, which shows the distribution
as well and costs a sixteenth.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from headrace.telemetry.metrics.histogram import BYTES, MILLISECONDS, Histogram

SAMPLED: Final = 15
"""A request is looked at where its number has none of these bits."""


class RequestMetrics:
    """Requests of one kind and version; histograms are of the kind."""

    __slots__ = ("count", "request_bytes", "time_ms")

    def __init__(self, time_ms: Histogram, request_bytes: Histogram) -> None:
        self.count = 0
        self.time_ms = time_ms
        self.request_bytes = request_bytes

    def sample(self, took_ns: float, size_bytes: int) -> None:
        self.time_ms.observe(took_ns / 1e6)
        self.request_bytes.observe(size_bytes)


class RequestChannelMetrics:
    """All requests of a node. Kinds, versions and error codes are the protocol's, so there are few."""

    def __init__(self) -> None:
        self.by_version: dict[tuple[str, int], RequestMetrics] = {}
        self.local_ms: dict[str, Histogram] = {}
        self.request_bytes: dict[str, Histogram] = {}
        self.errors: Counter[tuple[str, int]] = Counter()
        self.produce_waits = 0
        self.produce_wait_ms = Histogram(MILLISECONDS)

    def of(self, kind: str, version: int) -> RequestMetrics:
        found = self.by_version.get((kind, version))
        if found is None:
            times = self.local_ms.setdefault(kind, Histogram(MILLISECONDS))
            sizes = self.request_bytes.setdefault(kind, Histogram(BYTES))
            found = self.by_version[kind, version] = RequestMetrics(times, sizes)
        return found

    def note_produce_wait(self, took_s: float) -> None:
        """A Produce was held until replicas or the disk had it."""
        self.produce_waits += 1
        if not self.produce_waits & SAMPLED:
            self.produce_wait_ms.observe(took_s * 1000)
