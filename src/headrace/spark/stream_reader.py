"""Streaming reads: micro-batches are planned on the driver, in a process that lasts as long as the query.

Each trigger asks `latestOffset` how far to go: new partitions are found there, and topics that are gone, and
the limits of the options are applied. Spark writes the answer to the checkpoint and has `partitions` cut it
into tasks. What has been read is shown in the user's consumer group from both `latestOffset`, whose start is
what Spark has committed, and `commit`, which comes a batch late or never.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from headrace.base.clock import Clock, SystemClock
from headrace.spark.columns import check_schema
from headrace.spark.data_loss import report_data_loss
from headrace.spark.offsets import Offsets, PartitionOffsets, partition_offsets
from headrace.spark.options import ReadOptions
from headrace.spark.ranges import OffsetRange
from headrace.spark.stream_offsets import StreamOffset, batch_ranges, lag_json, limited
from headrace.spark.tasks import TaskPlanner, read_task

if TYPE_CHECKING:
    import pyarrow as pa


class HeadraceStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans the micro-batches of one query, and reads in its tasks."""

    def __init__(self, options: ReadOptions, schema: StructType, clock: Clock | None = None) -> None:
        check_schema(schema, options.columns)
        self._options = options
        self._clock = clock
        self._plan: _StreamPlan | None = None  # only on the driver: tasks get this object too

    @property
    def _planning(self) -> "_StreamPlan":
        if self._plan is None:
            self._plan = _StreamPlan(self._options, self._clock or SystemClock())
        return self._plan

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's names, here and below)
        return self._planning.initial().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._planning.fix_target()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        begin = StreamOffset.from_json(start)
        end = self._planning.advance(begin, limit)
        # Spark compares texts: the same offset has to be the same text.
        return start if end is begin else end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return self._planning.lag()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return self._planning.tasks(StreamOffset.from_json(start), StreamOffset.from_json(end))

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        return read_task(partition, self._options)

    def commit(self, end: dict[str, Any]) -> None:
        self._planning.show(StreamOffset.from_json(end))

    def stop(self) -> None:
        if self._plan is not None:
            self._plan.close()


class _StreamPlan:
    """The state of a running query on the driver."""

    def __init__(self, options: ReadOptions, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._asked: PartitionOffsets = partition_offsets(options)
        self._tasks = TaskPlanner(options)
        self._progress = None
        if options.group_id is not None and options.has_brokers:
            from headrace.spark.group_progress import GroupProgress  # tasks need no administrator

            self._progress = GroupProgress(options.group_id, lambda: self._asked.admin)
        self._initial: StreamOffset | None = None
        self._target: Offsets | None = None
        self._latest: Offsets = {}
        self._ends: Offsets = {}
        self._triggered_ms: int | None = None

    def close(self) -> None:
        if self._progress is not None:
            self._progress.close()
        self._asked.close()

    def initial(self) -> StreamOffset:
        """Where a new query begins; Spark asks for it several times."""
        if self._initial is None:
            partitions = self._asked.partitions()
            offsets = self._asked.starting(self._options.starting, partitions)
            self._initial = StreamOffset(offsets, is_initial=True)
        return self._initial

    def fix_target(self) -> None:
        """With the trigger availableNow: go to what is there now, and no further."""
        self._target = self._current()

    def advance(self, start: StreamOffset, limit: ReadLimit) -> StreamOffset:
        """How far the next batch goes; the start itself where there is nothing to do."""
        self.show(start)
        latest = self._current() if self._target is None else self._target_from(start)
        begins = self._begins(start, latest)
        self._latest = latest
        wanted = latest
        if not isinstance(limit, ReadAllAvailable):
            if self._is_too_early(begins, latest):
                self._ends = begins
                return start
            if isinstance(limit, ReadMaxRows):
                wanted = limited(begins, latest, limit.max_rows)
        self._ends = wanted
        if not start.is_initial and wanted == start.offsets:
            return start
        return start.followed_by(wanted, begins)

    def lag(self) -> dict[str, Any] | None:
        return lag_json(self._latest, self._ends) if self._latest else None

    def show(self, done: StreamOffset) -> None:
        """Everything below this is done."""
        if self._progress is not None and not done.is_initial:
            self._progress.show(done.offsets)

    def tasks(self, start: StreamOffset, end: StreamOffset) -> list[InputPartition]:
        """The tasks of a batch; none where it is empty."""
        ranges, unsaid = batch_ranges(start, end)
        for each, earliest in self._asked.earliest(unsaid).items():
            ranges.append(OffsetRange(*each, earliest, end.offsets[each]))
        return self._tasks.tasks(self._asked, ranges) if any(each.size > 0 for each in ranges) else []

    def _current(self) -> Offsets:
        """Where all partitions end that are there now."""
        return self._asked.latest(self._asked.partitions(without_missing=True))

    def _target_from(self, start: StreamOffset) -> Offsets:
        """The target of availableNow. A new query's start is looked up after it, and may be behind it."""
        assert self._target is not None
        if start.is_initial:
            behind = [each for each, begin in start.offsets.items() if begin > self._target.get(each, -1)]
            for each, end in self._asked.latest(behind).items():
                self._target[each] = min(end, start.offsets[each])
        return dict(self._target)

    def _begins(self, start: StreamOffset, latest: Offsets) -> Offsets:
        """Where the next batch begins in each partition that is there. Losses are told."""
        gone = sorted(set(start.offsets).difference(latest))
        if gone:
            names = ", ".join(map(str, gone))
            report_data_loss(f"a topic was deleted: {names} cannot be read any more", self._options)
        new = [each for each in latest if each not in start.offsets]
        back = [each for each, end in latest.items() if end < start.offsets.get(each, 0)]
        for each in back:
            report_data_loss(
                f"{each} ends at offset {latest[each]} now, before {start.offsets[each]}, up to which it was "
                "read: was its topic made anew?",
                self._options,
            )
        earliest = self._asked.earliest([*new, *back])
        for each in new:
            if earliest[each] > 0:
                report_data_loss(f"{each} is new, but begins at offset {earliest[each]}", self._options)
        return {each: earliest.get(each, start.offsets.get(each, 0)) for each in latest}

    def _is_too_early(self, begins: Offsets, latest: Offsets) -> bool:
        """Whether to wait for more, by minOffsetsPerTrigger and maxTriggerDelay. Never for availableNow."""
        least = self._options.min_offsets_per_trigger
        if least is None or self._target is not None:
            return False
        now_ms = self._clock.monotonic_ms()
        new = sum(max(0, end - begins[each]) for each, end in latest.items())
        is_late = (
            self._triggered_ms is None or now_ms - self._triggered_ms >= self._options.max_trigger_delay_ms
        )
        if new < least and not is_late:
            return True
        self._triggered_ms = now_ms
        return False
