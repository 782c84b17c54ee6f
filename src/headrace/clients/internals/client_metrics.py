"""What a client counts of itself, under the names that Kafka's clients have for it.

Batches and answers are counted, not records: a client adds some integers for each of them and nothing else.
Averages, rates and names are made when somebody asks (`metrics()`), or when a broker subscribes to them
(`client_telemetry_reporter.py`). Averages and largest values are of all time, rates since the client was
made: who wants them over an interval takes two readings of the totals.
"""

from collections.abc import Iterator
from typing import NamedTuple


class MetricName(NamedTuple):
    """A metric's name and group, as Kafka has them, and what tells it from others of that name."""

    name: str
    group: str
    tags: tuple[tuple[str, str], ...] = ()


class Latency:
    """How long answers took."""

    __slots__ = ("count", "max_ms", "sum_ms")

    def __init__(self) -> None:
        self.count = 0
        self.sum_ms = 0.0
        self.max_ms = 0.0

    def note(self, took_ms: float) -> None:
        self.count += 1
        self.sum_ms += took_ms
        if took_ms > self.max_ms:
            self.max_ms = took_ms

    def values(self, name: str) -> Iterator[tuple[str, float]]:
        yield f"{name}-avg", self.sum_ms / self.count if self.count else 0.0
        yield f"{name}-max", self.max_ms


class ClientMetrics:
    """The counters of one client, from its beginning on."""

    __slots__ = (
        "acknowledgement_errors",
        "acknowledgements_sent",
        "batches",
        "bytes_consumed",
        "bytes_sent",
        "connections_made",
        "fetches",
        "made_ms",
        "produces",
        "record_errors",
        "record_retries",
        "records_consumed",
        "records_sent",
    )

    def __init__(self, now_ms: float) -> None:
        self.made_ms = now_ms
        self.connections_made = 0
        self.produces = Latency()
        self.batches = 0
        self.bytes_sent = 0
        self.records_sent = 0
        self.record_errors = 0
        self.record_retries = 0
        self.fetches = Latency()
        self.bytes_consumed = 0
        self.records_consumed = 0
        self.acknowledgements_sent = 0
        self.acknowledgement_errors = 0

    def of_producer(self, now_ms: float) -> Iterator[tuple[str, str, float]]:
        """Group, name and value of each."""
        passed_s = max(now_ms - self.made_ms, 1) / 1000
        batches, produces = max(self.batches, 1), max(self.produces.count, 1)
        for name, value in (
            ("record-send-total", self.records_sent),
            ("record-send-rate", self.records_sent / passed_s),
            ("record-error-total", self.record_errors),
            ("record-retry-total", self.record_retries),
            ("batch-size-avg", self.bytes_sent / batches),
            ("records-per-request-avg", self.records_sent / produces),
            ("produce-request-total", self.produces.count),
            *self.produces.values("request-latency"),
        ):
            yield "producer-metrics", name, float(value)

    def of_consumer(self, now_ms: float) -> Iterator[tuple[str, str, float]]:
        """The same for a consumer."""
        for name, value in self._of_fetches(now_ms):
            yield "consumer-fetch-manager-metrics", name, float(value)

    def of_share_consumer(self, now_ms: float) -> Iterator[tuple[str, str, float]]:
        """The same for a share consumer; an acknowledgement is that of one record."""
        for name, value in (
            *self._of_fetches(now_ms),
            ("acknowledgements-send-total", self.acknowledgements_sent),
            ("acknowledgements-error-total", self.acknowledgement_errors),
        ):
            yield "consumer-share-fetch-manager-metrics", name, float(value)

    def _of_fetches(self, now_ms: float) -> Iterator[tuple[str, float]]:
        passed_s = max(now_ms - self.made_ms, 1) / 1000
        yield "records-consumed-total", self.records_consumed
        yield "records-consumed-rate", self.records_consumed / passed_s
        yield "bytes-consumed-total", self.bytes_consumed
        yield "bytes-consumed-rate", self.bytes_consumed / passed_s
        yield "fetch-total", self.fetches.count
        yield from self.fetches.values("fetch-latency")
