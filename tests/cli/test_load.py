"""`headrace load` tells its batches to whoever watches; the load itself is in tests/spark/test_loads_*.py."""

import contextlib
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from headrace.cli import load as command
from headrace.cli.main import cli
from headrace.spark.loads import feed_load
from headrace.spark.loads.feed_load import PIPELINE, FeedLoad
from headrace.spark.pipeline import traces
from headrace.spark.pipeline.reports import BatchReport
from headrace.spark.pipeline.runner import StoppedQuery
from headrace.transport.system_network import free_ports


def test_metrics_and_traces_of_a_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [port] = free_ports(1)
    spans = InMemorySpanExporter()
    scraped: list[str] = []

    @contextlib.contextmanager
    def no_session(*_: object) -> Iterator[None]:
        yield None

    def run_load(
        _: object, load: FeedLoad, *, tell: Callable[[BatchReport], None], **__: Any
    ) -> StoppedQuery:
        tell(BatchReport(load.query, 0, 10, 10, 5, 1500, 0, 0, 0, {"orders": {"0": 10}}, pipeline=PIPELINE))
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            scraped.append(answer.read().decode())
        return StoppedQuery(load.query, 0, {}, "the disk is full")

    monkeypatch.setattr(command, "opened_session", no_session)
    monkeypatch.setattr(command, "require_topics", lambda *_: None)
    monkeypatch.setattr(command, "unshared_places", lambda *_: ())
    monkeypatch.setattr(feed_load, "run_load", run_load)
    monkeypatch.setattr(traces, "OTLPSpanExporter", lambda: spans)
    words = ["load", "orders", str(tmp_path), "--to", "delta", "--metrics", f"127.0.0.1:{port}", "--traces"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 1, done.output
    labels = 'pipeline="load",query="load of orders"'
    assert f"headrace_pipeline_rows_in_total{{{labels}}} 10.0" in scraped[0]
    assert f'{{direction="in",kind="feed",name="orders",{labels}}} 1.0' in scraped[0]
    good, failed = spans.get_finished_spans()
    assert (good.name, failed.status.description) == ("batch load of orders", "the disk is full")
