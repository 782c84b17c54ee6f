"""OpenTelemetry's traces of micro-batches, for `headrace pipeline run --traces`.

Each batch is a trace of its own: a span from when Spark began it to its end, with what was read and written,
and one below it for each thing that it did (`addBatch` reads, computes and writes; the others plan and keep
the checkpoint). Spark tells how long each took, and not when it began: they are put one after the other, in
the order in which Spark does them. What a failed batch did is not told at all; its span has the reason, and
no length. Where spans go, under which name and how many of them, is said by OpenTelemetry's own variables
(OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER).
"""

import time
from collections.abc import Callable
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.util.types import AttributeValue

from headrace.spark.pipeline.reports import BatchReport

if TYPE_CHECKING:
    from headrace.spark.pipeline.runner import StoppedQuery

SERVICE: Final = "headrace-pipeline"
_MS: Final = 1_000_000
_ORDER: Final = ("latestOffset", "walCommit", "getBatch", "queryPlanning", "addBatch", "commitOffsets")
"""Spark's MicroBatchExecution."""


class PipelineTraces:
    """Sends what it is told, in a thread of its own; what is left is sent at the end."""

    def __init__(
        self, exporter: SpanExporter | None = None, *, now_ns: Callable[[], int] = time.time_ns
    ) -> None:
        resource = Resource.create()
        if str(resource.attributes["service.name"]).startswith("unknown_service"):  # no variable names it
            resource = resource.merge(Resource({"service.name": SERVICE}))
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter or OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("headrace.spark.pipeline")
        self._now_ns = now_ns

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._provider.shutdown()

    def batch(self, report: BatchReport) -> None:
        """A batch that is complete."""
        at_ns = _begun_ns(report) or self._now_ns() - report.duration_ms * _MS
        span = self._tracer.start_span(
            f"batch {report.query}", kind=SpanKind.CONSUMER, start_time=at_ns, attributes=_attributes(report)
        )
        context = trace.set_span_in_context(span)
        end_ns = at_ns + report.duration_ms * _MS
        for name in sorted(report.phases_ms, key=_place):
            part = self._tracer.start_span(name, context, start_time=at_ns)
            at_ns = min(at_ns + report.phases_ms[name] * _MS, end_ns)
            part.end(at_ns)
        span.end(end_ns)

    def failed(self, stopped: "StoppedQuery") -> None:
        """The batch that a query ended with."""
        span = self._tracer.start_span(
            f"batch {stopped.query}", kind=SpanKind.CONSUMER, attributes={"headrace.query": stopped.query}
        )
        span.set_status(Status(StatusCode.ERROR, stopped.failure))
        span.end()


def _begun_ns(report: BatchReport) -> int | None:
    try:
        return int(datetime.fromisoformat(report.started).timestamp() * 1000) * _MS
    except ValueError:
        return None


def _attributes(report: BatchReport) -> dict[str, AttributeValue]:
    told = {
        "headrace.pipeline": report.pipeline or None,
        "headrace.query": report.query,
        "headrace.batch": report.batch,
        "headrace.rows_in": report.rows_in,
        "headrace.rows_out": report.rows_out,
        "headrace.bad_rows": report.bad_rows,
        "headrace.lag": report.lag,
        "headrace.state_rows": report.state_rows,
        "messaging.system": "kafka",
        "messaging.destination.name": ",".join(sorted(report.ends)) or None,
        "messaging.batch.message_count": report.rows_in,
    }
    return {name: value for name, value in told.items() if value is not None}


def _place(name: str) -> tuple[int, str]:
    return (_ORDER.index(name) if name in _ORDER else len(_ORDER), name)
