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
from headrace.spark.worker_garbage import spare_modules

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
        return found or [RangePartition(OffsetRange("", 0, 0, 0))]


def _direct_reading(options: ReadOptions) -> "DirectReading":
    from headrace.spark.segments.direct import DirectReading  # who fetches needs none of it

    return DirectReading(options)


def read_task(partition: InputPartition, options: ReadOptions) -> "Iterator[pa.RecordBatch]":
    """The rows of a task."""
    assert isinstance(partition, RangePartition)
    if partition.wanted.size > 0:
        yield from _rows(partition, options)
    spare_modules()


def _rows(partition: RangePartition, options: ReadOptions) -> "Iterator[pa.RecordBatch]":
    # Only here: a driver that plans decodes nothing.
    if partition.manifest is None:
        from headrace.spark.reading import read_range

        return read_range(partition.wanted, options, partition.window)
    from headrace.spark.segments.direct import read_segments

    return read_segments(partition.wanted, options, partition.manifest, partition.window)
