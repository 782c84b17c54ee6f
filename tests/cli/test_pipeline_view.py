"""How a pipeline's batches look: as lines, as JSON, and as a table on a terminal."""

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from headrace.cli.pipeline_view import JsonView, LineView, LivePipelineView, open_view
from headrace.spark.pipeline.reports import BatchReport, batch_report

PLAIN = BatchReport("copy", 3, 12_000, 11_500, 250, 1_234, 0, 0, 0, {"t": {"0": 5}})
STATEFUL = BatchReport("sums", 0, 5, None, None, 80, 1_200, 3 * 1024 * 1024, 7, {})


def test_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with LineView() as view:
        view.started(["copy", "sums"])
        view.batch(PLAIN)
        view.batch(STATEFUL)
        view.batch(replace(PLAIN, bad_rows=2, tombstones=3))
    out, err = capsys.readouterr()
    assert err == "running copy, sums; Ctrl-C stops after the batch\n"
    assert out.splitlines() == [
        "copy  batch 3  in 12,000  out 11,500  lag 250  took 1.2 s",
        "sums  batch 0  in 5  took 0.1 s  state 1,200 rows, 3.0 MiB (7 late rows dropped)",
        "copy  batch 3  in 12,000 (2 bad, 3 tombstones)  out 11,500  lag 250  took 1.2 s",
    ]


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    with open_view(as_json=True) as view:
        assert isinstance(view, JsonView)
        view.started(["copy"])
        view.batch(PLAIN)
    start, batch = map(json.loads, capsys.readouterr().out.splitlines())
    assert start == {"event": "start", "queries": ["copy"]}
    assert (batch["event"], batch["rows_out"], batch["ends"]) == ("batch", 11_500, {"t": {"0": 5}})


def test_a_table_on_a_terminal() -> None:
    screen = io.StringIO()
    view = LivePipelineView()
    view._live.console = Console(file=screen, force_terminal=True, width=120)
    with view:
        view.started(["copy", "sums"])
        assert "waiting for the first batch" in screen.getvalue()
        view.batch(PLAIN)
        view.batch(PLAIN)
        view.batch(STATEFUL)
    shown = screen.getvalue()
    assert "ROWS OUT" in shown
    assert "copy: 24,000 rows in, 23,000 out" in shown
    assert "1,200 rows, 3.0 MiB" in shown


def test_a_report_of_what_spark_says() -> None:
    progress = {
        "batchId": 7,
        "numInputRows": 30,
        "durationMs": {"triggerExecution": 412},
        "observedMetrics": {"headrace_out": {"rows": 4}},
        "stateOperators": [{"numRowsTotal": 3, "memoryUsedBytes": 500, "numRowsDroppedByWatermark": 2}] * 2,
        "sources": [
            {
                "endOffset": '{"a": {"0": 10, "1": 5}, "@start": {"a": {"1": 0}}}',
                "latestOffset": {"a": {"0": 12, "1": 5}, "@lag": {"a": {"0": 2, "1": 0}}},
            },
            {"endOffset": {"b": {"0": 1}}, "latestOffset": None},
        ],
    }
    assert batch_report("q", progress) == BatchReport(
        "q", 7, 30, 4, 2, 412, 6, 1000, 4, {"a": {"0": 10, "1": 5}, "b": {"0": 1}}
    )
    counts = {"headrace_in_a": {"bad": 2, "tombstones": 1, "violates: n > 0": 3, "violates: n < 9": 0}}
    judged = batch_report("q", {**progress, "observedMetrics": counts})
    assert (judged.bad_rows, judged.tombstones, judged.violations) == (2, 1, {"n > 0": 3})
    # What pyspark 4.3 makes of the same through Connect: each row comes as its values and its schema.
    through_connect = {
        name: {"values": list(row.values()), "schema": {"fields": [{"name": each} for each in row]}}
        for name, row in {**counts, "headrace_out": {"rows": 4}}.items()
    }
    assert batch_report("q", {**progress, "observedMetrics": through_connect}) == replace(judged, rows_out=4)
    bare = batch_report("q", {"batchId": 0, "sources": [{"endOffset": 5}]})
    assert (bare.rows_out, bare.lag, bare.ends) == (None, None, {})
