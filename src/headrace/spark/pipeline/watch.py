"""What is known of running pipelines: figures for /metrics, and alerts where one is above its limit.

An alert is told once when it begins, in a line of the log, and once when it is over; `/metrics` has it as
long as it stands. `lag` stands while a query's last batch left more behind, so it can pass. `bad rows` are
those of the run, and stay. A run that ends with an alert ends with a non-zero state.
"""

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from headrace.spark.pipeline.errors import PipelineError
from headrace.spark.pipeline.graph import QueryEdge, query_edges
from headrace.spark.pipeline.reports import BatchReport
from headrace.spark.pipeline.spec import AlertSpec, PipelineSpec
from headrace.telemetry.metrics.catalogue import MetricSpec
from headrace.telemetry.metrics.exposition import Families

logger = logging.getLogger(__name__)

_QUERY: Final = ("pipeline", "query")


def _metric(name: str, kind: str, text: str, labels: tuple[str, ...] = _QUERY) -> MetricSpec:
    return MetricSpec("Pipelines", f"headrace_pipeline_{name}", kind, labels, text)


CATALOGUE: Final = {
    each.name: each
    for each in (
        _metric("batches_total", "counter", "Batches that are complete."),
        _metric("rows_in_total", "counter", "Records that were read."),
        _metric("rows_out_total", "counter", "Rows that were written."),
        _metric("bad_rows_total", "counter", "Records that could not be parsed or were not as expected."),
        _metric("late_rows_total", "counter", "Rows that came later than the watermark allows."),
        _metric("tombstones_total", "counter", "Records without a value."),
        _metric(
            "violations_total",
            "counter",
            "Rows that did not fulfil a condition.",
            (*_QUERY, "condition"),
        ),
        _metric("lag", "gauge", "Records that the last batch has left behind."),
        _metric("batch_seconds", "gauge", "How long the last batch took."),
        _metric("state_rows", "gauge", "Rows in the query's state."),
        _metric("state_bytes", "gauge", "Memory of the query's state."),
        _metric(
            "edge",
            "gauge",
            "1 for each feed, table or folder of files that a query reads (in) or writes (out).",
            (*_QUERY, "direction", "kind", "name"),
        ),
        _metric("alert", "gauge", "1 while the alert stands.", ("pipeline", "alert")),
    )
}


@dataclass(slots=True)
class _Totals:
    """Of one query."""

    last: BatchReport
    batches: int = 0
    rows_in: int = 0
    rows_out: int | None = None
    """None while no batch could tell."""
    bad_rows: int = 0
    late_rows: int = 0
    tombstones: int = 0
    violations: dict[str, int] = field(default_factory=dict)

    def add(self, report: BatchReport) -> None:
        self.last = report
        self.batches += 1
        self.rows_in += report.rows_in
        if report.rows_out is not None:
            self.rows_out = (self.rows_out or 0) + report.rows_out
        self.bad_rows += report.bad_rows
        self.late_rows += report.late_rows
        self.tombstones += report.tombstones
        for condition, count in report.violations.items():
            self.violations[condition] = self.violations.get(condition, 0) + count


def _edges_of(spec: PipelineSpec) -> list[QueryEdge]:
    try:
        return query_edges(spec)
    except PipelineError:
        return []  # what is wrong with the file is told where it is planned


class PipelineWatch:
    """Takes reports from the thread that runs queries, and is asked by that of /metrics."""

    def __init__(self, specs: Sequence[PipelineSpec], edges: Sequence[QueryEdge] = ()) -> None:
        """`edges` are those of queries that have no file."""
        self._edges = [*edges, *(edge for spec in specs for edge in _edges_of(spec))]
        self._alerts = {spec.name: spec.alerts for spec in specs}
        self._totals: dict[tuple[str, str], _Totals] = {}
        self._standing: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def batch(self, report: BatchReport) -> None:
        with self._lock:
            key = report.pipeline, report.query
            self._totals.setdefault(key, _Totals(report)).add(report)
        for alert in self._alerts.get(report.pipeline, ()):
            self._judge(report.pipeline, alert)

    def standing(self) -> list[str]:
        """The alerts that stand now, in words."""
        return sorted(f"{pipeline}: {what}" for pipeline, what in self._standing)

    def _judge(self, pipeline: str, alert: AlertSpec) -> None:
        value = self._value(pipeline, alert.what)
        key = pipeline, f"{alert.what} above {alert.most}"
        if value > alert.most and key not in self._standing:
            logger.error("%s: alert: %s: %d, above %d", pipeline, alert.what, value, alert.most)
            with self._lock:
                self._standing.add(key)
        elif value <= alert.most and key in self._standing:
            logger.warning("%s: the alert is over: %s: %d", pipeline, alert.what, value)
            with self._lock:
                self._standing.remove(key)

    def _value(self, pipeline: str, what: str) -> int:
        """Several queries may read one feed: the worst of them counts, and not their sum."""
        own = [each for (name, _), each in self._totals.items() if name == pipeline]
        if what == "lag":
            return max((each.last.lag or 0 for each in own), default=0)
        return max((each.bad_rows for each in own), default=0)

    def families(self) -> Families:
        """For a scrape."""
        families = Families(CATALOGUE)
        with self._lock:
            for (pipeline, query), each in self._totals.items():
                self._add(families, pipeline, query, each)
            for edge in self._edges:
                families.add("headrace_pipeline_edge", 1, *edge)
            for pipeline, alerts in self._alerts.items():
                for alert in alerts:
                    name = f"{alert.what} above {alert.most}"
                    is_standing = (pipeline, name) in self._standing
                    families.add("headrace_pipeline_alert", int(is_standing), pipeline, name)
        return families

    @staticmethod
    def _add(families: Families, pipeline: str, query: str, totals: _Totals) -> None:
        last = totals.last
        values = {
            "batches_total": totals.batches,
            "rows_in_total": totals.rows_in,
            "bad_rows_total": totals.bad_rows,
            "late_rows_total": totals.late_rows,
            "tombstones_total": totals.tombstones,
            "batch_seconds": last.duration_ms / 1000,
            "state_rows": last.state_rows,
            "state_bytes": last.state_bytes,
            **({} if last.lag is None else {"lag": last.lag}),
            **({} if totals.rows_out is None else {"rows_out_total": totals.rows_out}),
        }
        for name, value in values.items():
            families.add(f"headrace_pipeline_{name}", value, pipeline, query)
        for condition, count in totals.violations.items():
            families.add("headrace_pipeline_violations_total", count, pipeline, query, condition)
