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

from headrace.spark.cluster_check import missing_on_worker
from headrace.spark.pipeline.errors import PipelineError
from headrace.spark.pipeline.plan import FORMAT, PlannedQuery, plan, spark_reason
from headrace.spark.pipeline.reports import BatchReport, batch_report, input_counts
from headrace.spark.pipeline.spec import TABLE_KINDS, PipelineSpec
from headrace.spark.session import is_connected
from headrace.spark.sink import FeedWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# How often Spark is asked what is new; while stopping, often enough to come before the next batch.
_LOOK_S: Final = 0.2
_STOPPING_LOOK_S: Final = 0.01
_REASON_CHARS_MAX: Final = 1000
NO_TABLES: Final = (
    "tables are committed by the driver's JVM, which Spark Connect does not give: write a feed, or run it "
    "with --master or spark-submit"
)


@dataclass(frozen=True, slots=True)
class StoppedQuery:
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

    def __init__(self, planned: PlannedQuery, query: "StreamingQuery") -> None:
        self.name = planned.name
        self.pipeline = planned.pipeline
        self.query = query
        self._checked = planned.checked
        self.last: BatchReport | None = None
        self._told = -1
        self._seen: tuple[object, ...] = ()
        self._noted: set[tuple[object, ...]] = set()

    def news(self) -> list[BatchReport]:
        """Reports of batches that ended since the last call."""
        latest = self.query.lastProgress
        seen = () if latest is None else (latest["batchId"], latest["timestamp"])
        if seen == self._seen:  # the whole list is a hundred objects from the JVM
            return []
        self._seen = seen
        found = []
        for each in self.query.recentProgress:
            report = batch_report(self.name, _plain(each), self.pipeline)
            self._note(_plain(each))
            # Spark repeats the last number while nothing comes in: that is no batch.
            if report.batch > self._told and (report.rows_in or report.rows_out or _ran(each)):
                self._told = report.batch
                self.last = report
                found.append(report)
        return found

    def _note(self, progress: Mapping[str, Any]) -> None:
        """Tell the queries of dead letters where there is something for them."""
        key = progress["batchId"], progress["timestamp"]
        if key in self._noted:
            return
        self._noted.add(key)
        for each in self._checked:
            each.note(progress, input_counts(progress, each.name), has_run=_ran(progress))

    def stopped(self) -> StoppedQuery:
        failure = self.query.exception()
        ends = {} if self.last is None else {topic: dict(each) for topic, each in self.last.ends.items()}
        return StoppedQuery(
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
) -> list[StoppedQuery]:
    """Run a file's pipeline until it ends by itself, fails, or `should_stop` says so."""
    return run_all(spark, [spec], brokers, tell=tell, should_stop=should_stop, started=started)


def run_all(
    spark: "SparkSession",
    specs: Sequence[PipelineSpec],
    brokers: str,
    *,
    tell: Callable[[BatchReport], None],
    should_stop: Callable[[], bool],
    started: Callable[[Sequence[str]], None] = lambda _: None,
) -> list[StoppedQuery]:
    """The same of several files, in one session."""
    planned: list[PlannedQuery] = []
    for spec in specs:
        for output in spec.outputs if is_connected(spark) else ():
            if output.kind in TABLE_KINDS:
                raise PipelineError(spec.header.path, output.line, NO_TABLES)
        planned += plan(spark, spec, brokers)
    try:
        return run_queries(planned, {}, tell=tell, should_stop=should_stop, started=started)
    except PySparkException as error:  # what Spark only checks when a query starts
        header = specs[0].header
        line = header.body_line if len(specs) == 1 else None
        raise PipelineError(header.path, line, spark_reason(error)) from error


def run_queries(
    planned: Sequence[PlannedQuery],
    trigger: Mapping[str, str | bool],
    *,
    tell: Callable[[BatchReport], None],
    should_stop: Callable[[], bool],
    started: Callable[[Sequence[str]], None] = lambda _: None,
) -> list[StoppedQuery]:
    """Run until all queries end by themselves, one fails, or `should_stop` says so.

    The others are stopped with one that fails: half a pipeline is worse than none.
    """
    running: list[_Running] = []
    # What the main queries tell their dead letters is all there when they have read what there was and ended.
    later = [each for each in planned if each.is_after_main and _is_bounded(each, trigger)]
    try:
        for each in planned:
            if each not in later:
                query = _start(each, trigger)
                running.append(_Running(each, query))
        started([each.name for each in planned])
        while later or any(each.query.isActive for each in running):
            active = {each.pipeline for each in running if each.query.isActive}
            _tell_all(running, tell)
            if should_stop() or any(each.query.exception() for each in running):
                _stop_all(running, tell)
                break
            ready = [each for each in later if each.pipeline not in active]
            running += [_Running(each, _start(each, trigger)) for each in ready]
            later = [each for each in later if each not in ready]
            time.sleep(_LOOK_S)
    finally:
        for each_running in running:
            each_running.query.stop()
        for each in planned:
            if each.table is not None:
                each.table.close()
    _tell_all(running, tell)
    return [each.stopped() for each in running]


def _is_bounded(planned: PlannedQuery, trigger: Mapping[str, str | bool]) -> bool:
    own = trigger if planned.trigger is None else planned.trigger
    return bool(own.get("availableNow"))


def _start(planned: PlannedQuery, trigger: Mapping[str, str | bool]) -> "StreamingQuery":
    output = planned.output
    trigger = trigger if planned.trigger is None else planned.trigger
    writer: Any = planned.rows.writeStream.outputMode(
        "update" if output.mode == "upsert" else output.mode
    ).queryName(planned.name)
    writer = writer.option("checkpointLocation", planned.checkpoint)
    if trigger:
        writer = writer.trigger(**trigger)
    if planned.table is not None:
        writer = writer.foreachBatch(planned.table)
    elif output.kind in ("feed", "feeds") and output.mode == "update":
        writer = writer.foreachBatch(FeedWriter(_of_updates(planned)))
    elif output.kind == "console":
        writer = writer.format("console").option("truncate", "false")
    else:
        writer = writer.format(FORMAT).options(**planned.sink)
    query: StreamingQuery = writer.start()
    return query


def _of_updates(planned: PlannedQuery) -> Mapping[str, str]:
    """A batch is a batch write then, whose tasks know query and batch by Spark's own properties. So it is
    decided once, as a stream's is; not so through Spark Connect, which writes in a session of its own.
    """
    is_known = not is_connected(planned.rows.sparkSession)
    return {**({"delivery": "exactly_once"} if is_known else {}), **planned.sink}


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
    missing = missing_on_worker(str(error))
    if missing is not None:
        return missing
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
