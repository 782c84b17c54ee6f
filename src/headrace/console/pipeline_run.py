"""A run of pipelines, as its /metrics tells it scrape by scrape: its queries, how they went, and what they
read and write.

Counters begin at 0 when a run is started again, so a rate is over the last scrapes of one run. A query that
is not told of any more is forgotten. When a batch was last complete is when this console saw its number grow.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

PREFIX: Final = "headrace_pipeline_"
SAMPLES_MAX: Final = 300
"""Ten minutes, at a scrape every other second."""
RATE_MS: Final = 15_000
"""Over so long a rate is: batches come in jumps."""
QUERIES_MAX: Final = 1_000

_COUNTERS: Final = ("batches", "rows_in", "rows_out", "bad_rows", "late_rows", "tombstones")
_GAUGES: Final = ("lag", "batch_seconds", "state_rows", "state_bytes")
_FIGURES: Final = {**{f"{name}_total": name for name in _COUNTERS}, **{name: name for name in _GAUGES}}


class PipelineSample(NamedTuple):
    """One line of a scrape, its name without the prefix."""

    name: str
    labels: dict[str, str]
    value: float


class QueryPoint(NamedTuple):
    """What a chart needs of one scrape."""

    at_ms: int
    rows_in: float
    rows_out: float
    lag: float | None


@dataclass(slots=True)
class QueryCourse:
    """One query and its course."""

    figures: dict[str, float] = field(default_factory=dict)
    violations: dict[str, float] = field(default_factory=dict)
    points: deque[QueryPoint] = field(default_factory=lambda: deque(maxlen=SAMPLES_MAX))
    batch_ms: int | None = None
    """When its count of batches was seen to grow."""

    def take(self, figures: dict[str, float], violations: dict[str, float], at_ms: int) -> None:
        if figures.get("rows_in", 0) < self.figures.get("rows_in", 0):
            self.points.clear()  # another run
        if figures.get("batches", 0) != self.figures.get("batches", 0):
            self.batch_ms = at_ms
        self.figures, self.violations = figures, violations
        if "rows_in" in figures:  # else it has finished no batch yet
            written = figures.get("rows_out", 0.0)
            self.points.append(QueryPoint(at_ms, figures["rows_in"], written, figures.get("lag")))

    def rates(self, at: int = -1) -> tuple[float, float] | None:
        """Rows a second in and out, over some seconds up to one of the points; None where it is the first."""
        points = list(self.points)
        last = at % len(points) if points else 0
        first = last
        while first > 0 and points[last].at_ms - points[first].at_ms < RATE_MS:
            first -= 1
        if first == last:
            return None
        before, after = points[first], points[last]
        seconds = max(1, after.at_ms - before.at_ms) / 1000
        return (after.rows_in - before.rows_in) / seconds, (after.rows_out - before.rows_out) / seconds

    def course(self) -> list[float | None]:
        """Rows a second that came in, point by point."""
        found = [self.rates(at) for at in range(len(self.points))]
        return [None if each is None else each[0] for each in found]


@dataclass(slots=True)
class PipelineRun:
    """What one address tells."""

    queries: dict[tuple[str, str], QueryCourse] = field(default_factory=dict)
    edges: list[dict[str, str]] = field(default_factory=list)
    alerts: list[dict[str, Any]] = field(default_factory=list)
    is_known: bool = False
    """It has told of pipelines once, so it is no broker."""

    def take(self, samples: Sequence[PipelineSample], at_ms: int) -> None:
        """A scrape, whole."""
        if not samples:
            return
        self.is_known = True
        figures: dict[tuple[str, str], dict[str, float]] = {}
        violations: dict[tuple[str, str], dict[str, float]] = {}
        self.edges = [each.labels for each in samples if each.name == "edge"]
        self.alerts = [
            {"pipeline": each.labels["pipeline"], "alert": each.labels["alert"], "stands": bool(each.value)}
            for each in samples
            if each.name == "alert"
        ]
        for each in samples:
            key = each.labels["pipeline"], each.labels.get("query", "")
            if each.name in _FIGURES:
                figures.setdefault(key, {})[_FIGURES[each.name]] = each.value
            elif each.name == "violations_total":
                violations.setdefault(key, {})[each.labels["condition"]] = each.value
        # What is planned and has not finished a batch is known by what it reads.
        for edge in self.edges:
            figures.setdefault((edge["pipeline"], edge["query"]), {})
        known = list(figures)[:QUERIES_MAX]
        self.queries = {key: self.queries.get(key) or QueryCourse() for key in known}
        for key, state in self.queries.items():
            state.take(figures[key], violations.get(key, {}), at_ms)
