"""Runs a pipeline's queries, tells every batch, and stops between two of them.

Spark's own way to stop a query interrupts the batch that runs. Here the batch is let finish first: once Spark
tells its end, the query is stopped before the next one has begun to write. What is in the checkpoint
afterwards tells where it stopped. A batch that was planned and not committed runs first at the next start,
with the same offsets.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException

from headrace.spark.pipeline.errors import PipelineError
from headrace.spark.pipeline.plan import FORMAT, PlannedQuery, plan, sink_options, spark_reason
from headrace.spark.pipeline.reports import BatchReport, batch_report
from headrace.spark.pipeline.spec import PipelineSpec
from headrace.spark.sink.updates import FeedWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# How often Spark is asked what is new; while stopping, often enough to come before the next batch.
_LOOK_S: Final = 0.2
_STOPPING_LOOK_S: Final = 0.01
_REASON_CHARS_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a query ended."""

    query: str
    last_batch: int | None
    """The last that is complete; None where there was none."""
    ends: dict[str, dict[str, int]]
    failure: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "event": "stop",
            "query": self.query,
            "last_batch": self.last_batch,
            "ends": self.ends,
            "failure": self.failure,
        }


class _Running:
    """A query that was started, and how far it was told about."""

    def __init__(self, name: str, query: "StreamingQuery") -> None:
        self.name = name
        self.query = query
        self.last: BatchReport | None = None
        self._told = -1
        self._seen: tuple[object, ...] = ()

    def news(self) -> list[BatchReport]:
        """Reports of batches that ended since the last call."""
        latest = self.query.lastProgress
        seen = () if latest is None else (latest["batchId"], latest["timestamp"])
        if seen == self._seen:  # the whole list is a hundred objects from the JVM
            return []
        self._seen = seen
        found = []
        for each in self.query.recentProgress:
            report = batch_report(self.name, _plain(each))
            # Spark repeats the last number while nothing comes in: that is no batch.
            if report.batch > self._told and (report.rows_in or report.rows_out or _ran(each)):
                self._told = report.batch
                self.last = report
                found.append(report)
        return found

    def stopped(self) -> Stop:
        failure = self.query.exception()
        ends = {} if self.last is None else {topic: dict(each) for topic, each in self.last.ends.items()}
        return Stop(
            self.name,
            None if self.last is None else self.last.batch,
            ends,
            None if failure is None else failure_reason(failure),
        )


def run(
    spark: "SparkSession",
    spec: PipelineSpec,
    brokers: str,
    *,
    tell: Callable[[BatchReport], None],
    should_stop: Callable[[], bool],
    started: Callable[[Sequence[str]], None] = lambda _: None,
) -> list[Stop]:
    """Run a file's pipeline until it ends by itself, fails, or `should_stop` says so."""
    planned = plan(spark, spec, brokers)
    try:
        return run_queries(
            planned,
            spec.trigger,
            spec.brokers or brokers,
            tell=tell,
            should_stop=should_stop,
            started=started,
        )
    except PySparkException as error:  # what Spark only checks when a query starts
        raise PipelineError(spec.header.path, spec.header.body_line, spark_reason(error)) from error


def run_queries(
    planned: Sequence[PlannedQuery],
    trigger: Mapping[str, str | bool],
    brokers: str,
    *,
    tell: Callable[[BatchReport], None],
    should_stop: Callable[[], bool],
    started: Callable[[Sequence[str]], None] = lambda _: None,
) -> list[Stop]:
    """Run until all queries end by themselves, one fails, or `should_stop` says so.

    The others are stopped with one that fails: half a pipeline is worse than none.
    """
    running: list[_Running] = []
    try:
        for each in planned:
            query = _start(each, trigger, brokers)
            running.append(_Running(each.name, query))
        started([each.name for each in running])
        while any(each.query.isActive for each in running):
            _tell_all(running, tell)
            if should_stop() or any(each.query.exception() for each in running):
                _stop_all(running, tell)
                break
            time.sleep(_LOOK_S)
    finally:
        for each_running in running:
            each_running.query.stop()
    _tell_all(running, tell)
    return [each.stopped() for each in running]


def _start(planned: PlannedQuery, trigger: Mapping[str, str | bool], brokers: str) -> "StreamingQuery":
    output = planned.output
    writer: Any = planned.rows.writeStream.outputMode(output.mode).queryName(planned.name)
    writer = writer.option("checkpointLocation", planned.checkpoint)
    if trigger:
        writer = writer.trigger(**trigger)
    if planned.table is not None:
        writer = writer.foreachBatch(planned.table)
    elif output.kind in ("feed", "feeds") and output.mode == "update":
        writer = writer.foreachBatch(FeedWriter(sink_options(output, brokers)))
    elif output.kind == "console":
        writer = writer.format("console").option("truncate", "false")
    else:
        writer = writer.format(FORMAT).options(**sink_options(output, brokers))
    query: StreamingQuery = writer.start()
    return query


def _stop_all(running: Sequence[_Running], tell: Callable[[BatchReport], None]) -> None:
    """Each at the end of the batch that it is in."""
    left = [each for each in running if each.query.isActive]
    batches = {each.name: _told(each) for each in left}
    while left:
        for each in list(left):
            is_between = not each.query.status["isTriggerActive"] or _told(each) > batches[each.name]
            if is_between or not each.query.isActive:
                each.query.stop()
                left.remove(each)
        _tell_all(running, tell)
        if left:
            time.sleep(_STOPPING_LOOK_S)


def _told(running: _Running) -> int:
    progress = running.query.lastProgress
    return -1 if progress is None else int(_plain(progress)["batchId"])


def _tell_all(running: Sequence[_Running], tell: Callable[[BatchReport], None]) -> None:
    for each in running:
        for report in each.news():
            tell(report)


def _plain(progress: Any) -> dict[str, Any]:
    found: dict[str, Any] = progress if isinstance(progress, dict) else progress.asDict()
    return found


def _ran(progress: Any) -> bool:
    """Whether a batch was run, as opposed to a look at sources that had nothing."""
    return "addBatch" in (_plain(progress).get("durationMs") or {})


def failure_reason(error: Any) -> str:
    """The cause of a failed query, without the JVM's and Python's stacks."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    own = [line for line in lines if _is_raised(line)]
    reason = own[-1] if own else spark_reason(error)
    # Our own errors are sentences for people; of others the kind says something too.
    return re.sub(r"^headrace\.[\w.]+: ", "", reason)[:_REASON_CHARS_MAX]


def _is_raised(line: str) -> bool:
    """A last line of a Python traceback, as `headrace.clients.errors.RefusedError: …`."""
    head, separator, _ = line.partition(": ")
    return (
        bool(separator)
        and head.endswith(("Error", "Exception"))
        and " " not in head
        and not head.startswith("org.")
    )
