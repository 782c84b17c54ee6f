"""Traces of micro-batches: what is in them, and that they arrive where OpenTelemetry's variables say."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from click.testing import CliRunner
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from headrace.cli.main import cli
from headrace.spark.pipeline.reports import BatchReport, batch_report
from headrace.spark.pipeline.traces import PipelineTraces

PROGRESS = {
    "batchId": 7,
    "timestamp": "2026-01-31T12:00:00.250Z",
    "numInputRows": 30,
    "durationMs": {"addBatch": 300, "walCommit": 20, "latestOffset": 5, "new": 1, "triggerExecution": 412},
    "observedMetrics": {"headrace_out": {"rows": 4}},
    "sources": [{"endOffset": {"a": {"0": 10}}, "latestOffset": {"a": {"0": 12}}}],
}
BEGUN_NS = 1_769_860_800_250 * 1_000_000


def ms(ns: int | None) -> int:
    return ((ns or 0) - BEGUN_NS) // 1_000_000


def test_a_batch_is_a_span_with_its_phases_in_sparks_order() -> None:
    spans = InMemorySpanExporter()
    with PipelineTraces(spans) as traces:
        traces.batch(batch_report("errors", PROGRESS, "p"))
    *phases, batch = spans.get_finished_spans()
    assert (batch.name, ms(batch.start_time), ms(batch.end_time)) == ("batch errors", 0, 412)
    told = [(each.name, ms(each.start_time), ms(each.end_time)) for each in phases]
    assert told == [("latestOffset", 0, 5), ("walCommit", 5, 25), ("addBatch", 25, 325), ("new", 325, 326)]
    assert {each.parent and each.parent.span_id for each in phases} == {batch.context.span_id}
    assert dict(batch.attributes or {}) == {
        "headrace.pipeline": "p",
        "headrace.query": "errors",
        "headrace.batch": 7,
        "headrace.rows_in": 30,
        "headrace.rows_out": 4,
        "headrace.bad_rows": 0,
        "headrace.lag": 2,
        "headrace.state_rows": 0,
        "messaging.system": "kafka",
        "messaging.destination.name": "a",
        "messaging.batch.message_count": 30,
    }


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str | None, bytes]]]:
    """What is posted: path, a header, body."""
    got: list[tuple[str, str | None, bytes]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.path, self.headers["api-key"], body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=secret")
    yield got
    server.shutdown()
    thread.join()
    server.server_close()


def test_they_are_sent_where_the_variables_say(collector: list[tuple[str, str | None, bytes]]) -> None:
    from headrace.spark.pipeline.runner import StoppedQuery

    with PipelineTraces() as traces:
        traces.batch(replace(REPORT, started=""))
        traces.failed(StoppedQuery("errors", 7, {}, "a task failed"))
    ((path, key, body),) = collector
    assert (path, key) == ("/v1/traces", "secret")
    (resource,) = ExportTraceServiceRequest.FromString(body).resource_spans
    names = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert names["service.name"] == "headrace-pipeline"
    (scope,) = resource.scope_spans
    good, failed = scope.spans
    assert good.end_time_unix_nano - good.start_time_unix_nano == 1_500_000_000
    assert (failed.name, failed.status.message) == ("batch errors", "a task failed")
    assert failed.status.code == StatusCode.ERROR.value


REPORT = BatchReport("errors", 7, 10, 8, 5, 1500, 3, 4096, 1, {})


def test_the_variables_name_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    spans = InMemorySpanExporter()
    with PipelineTraces(spans) as traces:
        traces.batch(REPORT)
    (batch,) = spans.get_finished_spans()
    assert batch.resource.attributes["service.name"] == "mine"


def test_the_command_has_them_by_choice() -> None:
    assert "--traces" in CliRunner().invoke(cli, ["pipeline", "run", "--help"]).stdout
