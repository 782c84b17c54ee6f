"""Batch reads: the range of each partition is fixed on the driver, narrowed by filters, and cut into tasks.

Filters on topic, partition and offset choose ranges exactly, so Spark need not look at them again. A filter
on the timestamp moves the start forward to the first record that late (times need not rise within a
partition, so nothing is said about the end) and goes with the tasks, which leave other rows out before Spark
sees them.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from headrace.spark.columns import check_schema
from headrace.spark.data_loss import report_data_loss
from headrace.spark.filters import PushedFilters
from headrace.spark.offsets import PartitionOffsets, partition_offsets
from headrace.spark.option_values import OptionError
from headrace.spark.options import ReadOptions
from headrace.spark.ranges import OffsetRange
from headrace.spark.tasks import TaskPlanner, read_task

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter


class _PushFilters:
    """`pushFilters` where Spark pushes filters, and nothing at all where it does not.

    Spark refuses a reader that implements the method while `spark.sql.python.filterPushdown.enabled` is off,
    its default. It tells by `__func__`, which therefore says that nothing is overridden; with the setting on
    it only calls.
    """

    def __init__(self, reader: "HeadraceBatchReader") -> None:
        self._reader = reader
        self.__func__ = DataSourceReader.pushFilters

    def __call__(self, filters: "list[Filter]") -> "Iterable[Filter]":
        return self._reader.push(filters)


class HeadraceBatchReader(DataSourceReader):
    """Reads ranges that are fixed when the query is planned."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        check_schema(schema, options.columns)
        self._options = options
        self._filters = PushedFilters()

    @property
    def pushFilters(self) -> Any:  # noqa: N802 (Spark's name; see _PushFilters)
        return _PushFilters(self)

    def push(self, filters: "list[Filter]") -> "Iterable[Filter]":
        """Take what can be used; returns what Spark still has to look at."""
        return self._filters.take(filters)

    def partitions(self) -> Sequence[InputPartition]:
        with closing(partition_offsets(self._options)) as asked:
            ranges = planned_ranges(self._options, self._filters, asked)
            return TaskPlanner(self._options).tasks(asked, ranges, self._filters.window)

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        return read_task(partition, self._options)


def planned_ranges(
    options: ReadOptions, filters: PushedFilters, asked: PartitionOffsets
) -> list[OffsetRange]:
    """The range of each partition that is read."""
    partitions = asked.partitions()
    starts, ends = asked.starting(options.starting, partitions), asked.ending(options.ending, partitions)
    wanted = [each for each in partitions if filters.accepts(each)]
    begins = {each: filters.first_offset(starts[each]) for each in wanted}
    if filters.window is not None:
        first_ms = -(-filters.window.first_us // 1000)
        late = asked.at_times(dict.fromkeys(wanted, max(0, first_ms)))
        begins = {
            each: ends[each] if (found := late[each]) is None else max(begins[each], found) for each in wanted
        }
    earliest, latest = asked.earliest(wanted), asked.latest(wanted)
    ranges = []
    for each in wanted:
        start, end = begins[each], filters.end_offset(ends[each])
        if starts[each] > ends[each]:
            raise OptionError(f"the start of {each} ({starts[each]}) is behind its end ({ends[each]})")
        if start < end and start < earliest[each]:
            report_data_loss(
                f"{each} begins at offset {earliest[each]} now: the records from {start} on are gone", options
            )
            start = earliest[each]
        if start < end and end > latest[each]:
            report_data_loss(f"{each} ends at offset {latest[each]} now, before {end}", options)
            end = latest[each]
        ranges.append(OffsetRange(*each, start, end))
    return ranges
