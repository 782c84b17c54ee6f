"""A run of pipelines as the console meets it: /metrics of a real watch, and batches that a test reports."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from headrace.spark.pipeline.metrics_listener import PipelineMetrics
from headrace.spark.pipeline.reports import BatchReport
from headrace.spark.pipeline.spec_reader import read_spec
from headrace.spark.pipeline.watch import PipelineWatch

LINES = (
    "in orders: feed orders",
    "  json: n LONG",
    "  dead letters: orders-dead",
    "out: feed big-orders",
    "alert: lag above 100",
)
BATCH = BatchReport("big", 0, 10, 4, 0, 250, 30, 4096, 1, {}, 2, 0, {"n > 0": 1}, "big")


class TestedRun:
    """Where its /metrics are; `batch` reports that a query has finished one."""

    __test__ = False

    def __init__(self, watch: PipelineWatch, url: str) -> None:
        self.url = url
        self._watch = watch
        self._batches = 0

    def batch(self, query: str = "big", *, rows_in: int = 10, lag: int = 0) -> None:
        self._batches += 1
        self._watch.batch(replace(BATCH, query=query, batch=self._batches, rows_in=rows_in, lag=lag))


@contextmanager
def running_pipeline(*lines: str) -> Iterator[TestedRun]:
    text = "\n".join([*(f"-- {line}" for line in (lines or LINES)), "SELECT n FROM orders WHERE n > 10"])
    watch = PipelineWatch([read_spec("big.sql", text, {})])
    with PipelineMetrics(watch, "127.0.0.1", 0) as served:
        yield TestedRun(watch, f"http://{served.address[0]}:{served.address[1]}/metrics")
