"""Alerts, and /metrics of a pipeline."""

import logging
import urllib.error
import urllib.request
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace.spark.pipeline.metrics_listener import PipelineMetrics
from headrace.spark.pipeline.reports import BatchReport
from headrace.spark.pipeline.spec_reader import read_spec
from headrace.spark.pipeline.watch import PipelineWatch

REPORT = BatchReport("p", 0, 10, 8, 5, 1500, 3, 4096, 1, {}, 2, 1, {"n > 0": 4}, "p")


def watch() -> PipelineWatch:
    lines = ["in a: feed t", "out: console", "alert: lag above 100", "alert: bad rows above 3"]
    return PipelineWatch([read_spec("p.sql", "\n".join([*(f"-- {line}" for line in lines), "SELECT 1"]), {})])


def samples(text: str) -> dict[tuple[str, ...], float]:
    return {
        (
            each.name.removeprefix("headrace_pipeline_"),
            *(each.labels[name] for name in sorted(each.labels)),
        ): each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
    }


def test_a_lag_comes_and_goes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    found = watch()
    found.batch(REPORT)
    assert found.standing() == []
    for _ in range(2):
        found.batch(replace(REPORT, lag=101, bad_rows=0))
    assert found.standing() == ["p: lag above 100"]
    assert caplog.messages == ["p: alert: lag: 101, above 100"], "once"
    found.batch(replace(REPORT, lag=100, bad_rows=0))
    assert found.standing() == []
    assert caplog.messages[1:] == ["p: the alert is over: lag: 100"]


def test_bad_rows_stay() -> None:
    found = watch()
    found.batch(replace(REPORT, bad_rows=2))
    found.batch(replace(REPORT, bad_rows=2))
    found.batch(replace(REPORT, bad_rows=0))
    assert found.standing() == ["p: bad rows above 3"]


def test_two_queries_of_one_feed_do_not_count_twice() -> None:
    found = watch()
    found.batch(replace(REPORT, bad_rows=3))
    found.batch(replace(REPORT, query="p/other", bad_rows=3))
    found.batch(replace(REPORT, pipeline="another", lag=10_000))
    assert found.standing() == []


def test_metrics_are_served() -> None:
    found = watch()
    with PipelineMetrics(found, "127.0.0.1", 0) as served:
        url = f"http://127.0.0.1:{served.address[1]}"
        for report in (REPORT, replace(REPORT, batch=1, lag=200)):
            found.batch(report)
        with urllib.request.urlopen(f"{url}/metrics", timeout=30) as answer:
            told = samples(answer.read().decode())
        with urllib.request.urlopen(f"{url}/health/live", timeout=30) as answer:
            assert answer.status == 200
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{url}/nothing", timeout=30)
    assert told == {
        ("batches_total", "p", "p"): 2,
        ("rows_in_total", "p", "p"): 20,
        ("rows_out_total", "p", "p"): 16,
        ("bad_rows_total", "p", "p"): 4,
        ("late_rows_total", "p", "p"): 2,
        ("tombstones_total", "p", "p"): 2,
        ("violations_total", "n > 0", "p", "p"): 8,
        ("lag", "p", "p"): 200,
        ("batch_seconds", "p", "p"): 1.5,
        ("state_rows", "p", "p"): 3,
        ("state_bytes", "p", "p"): 4096,
        ("edge", "out", "table", "console", "p", "p"): 1,
        ("alert", "lag above 100", "p"): 1,
        ("alert", "bad rows above 3", "p"): 1,
    }


def test_a_port_that_is_taken() -> None:
    with PipelineMetrics(watch(), "127.0.0.1", 0) as served, pytest.raises(OSError, match="in use"):
        PipelineMetrics(watch(), *served.address).__enter__()


def test_what_queries_read_and_write_is_told() -> None:
    """A scrape is enough to draw the pipeline: its feeds, its tables and its dead letters."""
    lines = ["in a: feed t,u", "  json: n LONG", "  dead letters: t-dead", "in b: feed v", "out: feed w"]
    spec = read_spec("p.sql", "\n".join([*(f"-- {line}" for line in lines), "SELECT n FROM a"]), {})
    text = b"".join(PipelineWatch([spec]).families().text("")).decode()
    edges = {
        (labels["query"], labels["direction"], labels["kind"], labels["name"])
        for family in text_string_to_metric_families(text)
        for _, labels, *_ in family.samples
        if family.name == "headrace_pipeline_edge"
    }
    dead = "dead letters of a"
    assert edges == {
        *(("p", "in", "feed", name) for name in ("t", "u")),
        ("p", "out", "feed", "w"),
        *((dead, "in", "feed", name) for name in ("t", "u")),
        (dead, "out", "dead", "t-dead"),
    }
