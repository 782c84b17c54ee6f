"""Ranges as Spark's tasks, in either mode: fetched from brokers, or read from segment files.

This is the one place that tells the modes apart; the readers of batches and streams plan ranges and know
nothing of files.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from headrace.spark.offsets import PartitionOffsets
from headrace.spark.options import ReadOptions
from headrace.spark.ranges import OffsetRange, TimeWindow, split
from headrace.spark.worker import hush_closed_sockets, spare_modules

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.spark.segments.direct import DirectReading
    from headrace.spark.segments.manifest import PartitionManifest


class RangePartition(InputPartition):
    """What one task reads; with a manifest, of which files."""

    def __init__(
        self,
        wanted: OffsetRange,
        window: TimeWindow | None = None,
        manifest: "PartitionManifest | None" = None,
    ) -> None:
        super().__init__(wanted)
        self.wanted = wanted
        self.window = window
        self.manifest = manifest


class TaskPlanner:
    """Cuts the ranges of one query into tasks, batch after batch."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._direct = _direct_reading(options) if options.read_mode == "segments" else None

    def tasks(
        self, asked: PartitionOffsets, ranges: Iterable[OffsetRange], window: TimeWindow | None = None
    ) -> list[InputPartition]:
        """One at least, since Spark wants one: an empty range of nothing."""
        from_table: list[InputPartition] = []
        if self._options.history is not None:
            ranges, from_table = self._from_table(asked, ranges, window)
        found: list[InputPartition]
        if self._direct is not None:
            found = [
                RangePartition(each, window, manifest) for each, manifest in self._direct.plan(asked, ranges)
            ]
        else:
            pieces = split(
                ranges,
                min_partitions=self._options.min_partitions,
                max_records=self._options.max_records_per_partition,
            )
            found = [RangePartition(each, window) for each in pieces]
        return [*from_table, *found] or [RangePartition(OffsetRange("", 0, 0, 0))]

    def _from_table(
        self, asked: PartitionOffsets, ranges: Iterable[OffsetRange], window: TimeWindow | None
    ) -> tuple[list[OffsetRange], list[InputPartition]]:
        """What is left for the log, and the tasks of what the history has."""
        from headrace.spark.history.union_offsets import UnionOffsets
        from headrace.spark.history.union_tasks import history_tasks

        assert isinstance(asked, UnionOffsets)
        parts = asked.parts(ranges)
        if not parts.from_table:
            return parts.from_log, []
        files, least = asked.snapshot.files(), self._options.min_partitions
        return parts.from_log, [*history_tasks(files, parts.from_table, window, min_partitions=least)]


def _direct_reading(options: ReadOptions) -> "DirectReading":
    from headrace.spark.segments.direct import DirectReading  # who fetches needs none of it

    return DirectReading(options)


def read_task(partition: InputPartition, options: ReadOptions) -> "Iterator[pa.RecordBatch]":
    """The rows of a task."""
    hush_closed_sockets()
    if not isinstance(partition, RangePartition):
        from headrace.spark.history.union_tasks import HistoryPartition, read_history

        assert isinstance(partition, HistoryPartition)
        yield from read_history(partition, options)
    elif partition.wanted.size > 0:
        yield from _rows(partition, options)
    spare_modules()


def _rows(partition: RangePartition, options: ReadOptions) -> "Iterator[pa.RecordBatch]":
    # Only here: a driver that plans decodes nothing.
    if partition.manifest is None:
        from headrace.spark.reading import read_range

        return read_range(partition.wanted, options, partition.window)
    from headrace.spark.segments.direct import read_segments

    return read_segments(partition.wanted, options, partition.manifest, partition.window)
