"""How a running query's micro-batches are planned, on the driver: as far as every Spark asks for it.

Each trigger asks how far to go (`StreamPlan.advance`): new partitions are found there, and topics that are
gone, and the limits of the options are applied. Spark writes the answer to the checkpoint
(`stream_offset.py`) and has it cut into tasks. What has been read is shown in the user's consumer group from
both `advance`, whose start is what Spark has committed, and Spark's `commit`, which comes a batch late or
never.

How Spark asks depends on its version: `stream_reader.py` and `whole_stream_reader.py`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from headrace.base.clock import Clock, SystemClock
from headrace.base.ids import TopicPartition
from headrace.spark.checked_ranges import CheckedRanges
from headrace.spark.columns import check_schema
from headrace.spark.data_loss import report_data_loss
from headrace.spark.offsets import Offsets, PartitionOffsets, partition_offsets
from headrace.spark.options import ReadOptions
from headrace.spark.ranges import OffsetRange
from headrace.spark.source_progress import described, lag_json
from headrace.spark.stream_offset import StreamOffset, batch_ranges, limited
from headrace.spark.tasks import TaskPlanner, read_task

if TYPE_CHECKING:
    import pyarrow as pa


class PlannedStreamReader(DataSourceStreamReader):
    """Plans the micro-batches of one query, and reads in its tasks: all but how Spark asks for the end."""

    def __init__(self, options: ReadOptions, schema: StructType, clock: Clock | None = None) -> None:
        check_schema(schema, options.columns)
        self._options = options
        self._clock = clock
        self._plan: StreamPlan | None = None  # only on the driver: tasks get this object too

    @property
    def _planning(self) -> "StreamPlan":
        if self._plan is None:
            self._plan = StreamPlan(self._options, self._clock or SystemClock())
        return self._plan

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's names, here and below)
        return self._planning.initial().to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return self._planning.tasks(StreamOffset.from_json(start), StreamOffset.from_json(end))

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        return read_task(partition, self._options)

    def commit(self, end: dict[str, Any]) -> None:
        self._planning.show(StreamOffset.from_json(end))

    def stop(self) -> None:
        if self._plan is not None:
            self._plan.close()


class StreamPlan:
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
        self._checked = None if options.checked_file is None else CheckedRanges(options.checked_file)
        self._initial: StreamOffset | None = None
        self._target: Offsets | None = None
        self._ids: dict[str, str] = {}
        self._planned: StreamOffset | None = None
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
            self._initial = StreamOffset(offsets, is_initial=True, ids=dict(self._asked.topic_ids))
        return self._initial

    def fix_target(self) -> None:
        """With the trigger availableNow: go to what is there now, and no further."""
        self._target = self._current()

    def advance(
        self, start: StreamOffset, *, rows_max: int | None = None, may_wait: bool = False
    ) -> StreamOffset:
        """How far the next batch goes; the start itself where there is nothing to do."""
        self.show(start)
        latest = self._current() if self._target is None else self._target_from(start)
        begins = self._begins(start, latest, self._ids)
        self._latest = latest
        wanted = self._checked_to(latest, begins)
        if may_wait and self._is_too_early(begins, latest):
            self._ends = begins
            return start
        if rows_max is not None:
            wanted = limited(begins, wanted, rows_max)
        self._ends = wanted
        if not start.is_initial and wanted == start.offsets and not start.remade(self._ids):
            return start
        self._planned = start.followed_by(wanted, begins, self._ids)
        return self._planned

    def end_of_all(self) -> StreamOffset:
        """Where everything ends, for a batch of which nobody says where it begins."""
        first = self.initial()  # before the end is: "latest" moves
        latest = self._current()
        return StreamOffset(latest, ids=dict(self._ids), first=first.offsets)

    def lag(self) -> dict[str, Any] | None:
        return lag_json(self._latest, self._ends, described(self._options)) if self._latest else None

    def show(self, done: StreamOffset) -> None:
        """Everything below this is done."""
        if self._progress is not None and not done.is_initial:
            self._progress.show(done.offsets)

    def tasks(self, start: StreamOffset, end: StreamOffset) -> list[InputPartition]:
        """The tasks of a batch; none where it is empty."""
        if end.first and not start.is_initial and start != end:  # it was not known where the batch begins
            end = replace(end, starts=self._begins(start, end.offsets, end.ids), first={})
        ranges, unsaid = batch_ranges(start, end)
        if end != self._planned and (gone := self._lost(end)):
            ranges = [each for each in ranges if each.topic not in gone]
            unsaid = [each for each in unsaid if each.topic not in gone]
        for each, earliest in self._asked.earliest(unsaid).items():
            ranges.append(OffsetRange(*each, earliest, end.offsets[each]))
        if self._checked is not None:
            ranges = self._checked.left(ranges)
        return self._tasks.tasks(self._asked, ranges) if any(each.size > 0 for each in ranges) else []

    def _checked_to(self, latest: Offsets, begins: Offsets) -> Offsets:
        """No further than the query has got that looks first; with availableNow it is done, or had nothing
        to do."""
        if self._checked is None:
            return latest
        self._checked.refresh()
        self._checked.forget(begins)
        if self._checked.is_silent and self._target is not None:
            return latest
        return self._checked.reached(latest, begins)

    def _current(self) -> Offsets:
        """Where all partitions end that are there now."""
        partitions = self._asked.partitions(without_missing=True)
        self._ids = dict(self._asked.topic_ids)
        latest = self._asked.latest(partitions)
        if self._options.ending.time_ms is None:
            return latest
        ends = self._asked.ending(self._options.ending, partitions)
        return {each: min(end, ends[each]) for each, end in latest.items()}

    def _lost(self, end: StreamOffset) -> set[str]:
        """Topics of a batch that an earlier process planned, and that were made again since then."""
        self._asked.partitions(without_missing=True)
        lost = end.remade(self._asked.topic_ids)
        self._report_remade(lost, end)
        return lost

    def _report_remade(self, names: set[str], known: StreamOffset) -> None:
        for name in sorted(names):
            read = ", ".join(f"{each} to {end}" for each, end in known.offsets.items() if each.topic == name)
            report_data_loss(
                f"topic {name} was deleted and made again: what was read of it ({read}) was the topic "
                f"with id {known.ids[name]}, and the new one is to be read from its start",
                self._options,
            )

    def _target_from(self, start: StreamOffset) -> Offsets:
        """The target of availableNow. A new query's start is looked up after it, and may be behind it."""
        assert self._target is not None
        if start.is_initial:
            behind = [each for each, begin in start.offsets.items() if begin > self._target.get(each, -1)]
            for each, end in self._asked.latest(behind).items():
                self._target[each] = min(end, start.offsets[each])
        return dict(self._target)

    def _begins(
        self, start: StreamOffset, latest: Mapping[TopicPartition, int], ids: Mapping[str, str]
    ) -> Offsets:
        """Where the next batch begins in each partition that is there. Losses are told."""
        remade = start.remade(ids)
        self._report_remade(remade, start)
        gone = sorted(each for each in set(start.offsets).difference(latest) if each.topic not in remade)
        if gone:
            names = ", ".join(map(str, gone))
            report_data_loss(f"a topic was deleted: {names} cannot be read any more", self._options)
        new = [each for each in latest if each not in start.offsets and each.topic not in remade]
        again = [each for each in latest if each.topic in remade]
        back = [
            each
            for each, end in latest.items()
            if end < start.offsets.get(each, 0) and each.topic not in remade
        ]
        for each in back:
            report_data_loss(
                f"{each} ends at offset {latest[each]} now, before {start.offsets[each]}, up to which it was "
                "read: was its topic deleted and created again?",
                self._options,
            )
        earliest = self._asked.earliest([*new, *back, *again])
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
