"""What clients have pushed lately, kept for whoever scrapes this node.

Names come from clients, so everything has a bound: so many clients are shown, so many values of each, and
what is more is counted and said. Deltas are added up, so that totals grow as counters do. A client that has
not pushed for some intervals, or has said that it ends, is shown no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from headrace.telemetry.client_metrics.otlp import Attributes, DataPoint
from headrace.telemetry.limited_log import LimitedLog

CLIENTS_MAX: Final = 200
SERIES_MAX: Final = 500
"""Values of one client: 100,000 lines in all at most, as a node of some thousand partitions has."""

_Series = tuple[str, Attributes]


class PushedValue(NamedTuple):
    """One line of a scrape."""

    client_id: str
    instance_id: str
    metric: str
    attributes: str
    value: float
    is_total: bool


class _Client:
    __slots__ = ("client_id", "gauges", "shown_until_s", "totals")

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self.shown_until_s = 0.0
        self.gauges: dict[_Series, float] = {}
        self.totals: dict[_Series, float] = {}


class PushedMetrics:
    """All clients that push to this node."""

    def __init__(self, log: LimitedLog | None = None) -> None:
        self._clients: dict[str, _Client] = {}
        self._log = log
        self.left_out = 0

    def __len__(self) -> int:
        return len(self._clients)

    def take(
        self,
        client_id: str,
        instance_id: str,
        points: Sequence[DataPoint],
        *,
        now_s: float,
        shown_s: float,
    ) -> None:
        """A push, which is shown for so long."""
        client = self._clients.get(instance_id)
        if client is None:
            self.expire(now_s)
            if len(self._clients) >= CLIENTS_MAX:
                self._leave_out(len(points), client_id, f"{CLIENTS_MAX} clients are shown")
                return
            client = self._clients[instance_id] = _Client(client_id)
        client.shown_until_s = now_s + shown_s
        more = sum(not _put(client, point) for point in points)
        if more:
            self._leave_out(more, client_id, f"{SERIES_MAX} values of it are shown")

    def _leave_out(self, count: int, client_id: str, why: str) -> None:
        self.left_out += count
        if self._log is not None:
            self._log.write(
                "%d values that client %r has pushed are not in /metrics: %s. Subscribe to fewer, with "
                "kafka-client-metrics, or hand them on to headrace.client.metrics.otlp.endpoint",
                *(count, client_id, why),
            )

    def drop(self, instance_id: str) -> None:
        """It has pushed its last."""
        self._clients.pop(instance_id, None)

    def expire(self, now_s: float) -> None:
        gone = [name for name, client in self._clients.items() if client.shown_until_s < now_s]
        for name in gone:
            del self._clients[name]

    def values(self) -> Iterator[PushedValue]:
        for instance_id, client in list(self._clients.items()):
            for is_total, values in ((False, client.gauges), (True, client.totals)):
                for (metric, attributes), value in list(values.items()):
                    text = ",".join(f"{key}={each}" for key, each in attributes)
                    yield PushedValue(client.client_id, instance_id, metric, text, value, is_total)


def _put(client: _Client, point: DataPoint) -> bool:
    """False where the client has too many already."""
    series = (point.name, point.attributes)
    values = client.totals if point.is_total else client.gauges
    if series not in values and len(client.gauges) + len(client.totals) >= SERIES_MAX:
        return False
    before = values.get(series, 0.0) if point.is_total and point.is_delta else 0.0
    values[series] = before + point.value
    return True
