"""The demonstration in a browser: a console, and /metrics of the Spark program for its page of pipelines.

The Spark program tells the demonstration of every batch; what it tells is served here as a run of pipelines
serves it. It is killed on the way: the figures stand still then, which is what a browser should see.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.cli.console_process import quiet_console
from headrace.spark.demo.feeds import DERIVED, QUERIES
from headrace.spark.demo.picture import Picture
from headrace.spark.pipeline.graph import QueryEdge
from headrace.spark.pipeline.metrics_listener import PipelineMetrics
from headrace.spark.pipeline.reports import BatchReport
from headrace.spark.pipeline.watch import PipelineWatch

if TYPE_CHECKING:
    from headrace.spark.demo.demonstration import DemoView

PIPELINE: Final = "demo"


class ShownDemo(NamedTuple):
    """Where browsers find it; empty where the console does not start."""

    url: str
    watch: PipelineWatch

    def beside(self, view: "DemoView") -> "MeteredView":
        """The same view, and figures for the console."""
        return MeteredView(view, self.watch)


@contextmanager
def shown_demo(address: str, folder: Path, port: int | None, metrics: Sequence[str]) -> Iterator[ShownDemo]:
    """A console of these brokers, until the end of the demonstration."""
    watch = PipelineWatch([], edges())
    with PipelineMetrics(watch, "127.0.0.1", 0) as served:
        host, own = served.address
        urls = [f"http://{host}:{own}/metrics", *metrics]
        with quiet_console(address, folder / "console.log", port=port, metrics=urls) as url:
            yield ShownDemo(url, watch)


def edges() -> list[QueryEdge]:
    """What each query of the Spark program reads and writes."""
    found = []
    for query, feeds in QUERIES.items():
        found += [QueryEdge(PIPELINE, query, "in", "feed", feed) for feed in feeds]
        found.append(QueryEdge(PIPELINE, query, "out", "feed" if query in DERIVED else "table", query))
    return found


class MeteredView:
    """Hands each picture on, and reports the batches that have ended since the last one."""

    def __init__(self, view: "DemoView", watch: PipelineWatch) -> None:
        self._view = view
        self._watch = watch
        self._batches: dict[str, int] = {}
        self._read: dict[str, int] = {}
        self._written: dict[str, int] = {}

    def update(self, picture: Picture) -> None:
        for name, query in picture.queries.items():
            if query.batch is not None and query.batch != self._batches.get(name):
                self._batches[name] = query.batch
                self._watch.batch(self._report(picture, name, query.batch))
        self._view.update(picture)

    def _report(self, picture: Picture, name: str, batch: int) -> BatchReport:
        query = picture.queries[name]
        written = None
        if name in DERIVED:
            written = picture.feeds[name].records - self._written.get(name, 0)
            self._written[name] = picture.feeds[name].records
        rows = query.read - self._read.get(name, 0)
        self._read[name] = query.read
        return BatchReport(
            name,
            batch,
            rows,
            written,
            query.lag,
            query.batch_ms,
            query.state_rows,
            0,
            0,
            {},
            pipeline=PIPELINE,
        )
