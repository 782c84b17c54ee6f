"""The offsets of a load's batches, from where Spark keeps them: the query's checkpoint.

Spark writes the end of a batch to `offsets/NUMBER` before it runs, and a repeated batch has the same file. So
what a table says about its batches is what the source was asked for, and not what rows came of it: offsets
without a record (control records, compaction) are covered too.
"""

import json
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.spark.history.held import BatchOffsets
from headrace.spark.loads.folders import TableFolder
from headrace.spark.loads.tables import LoadError
from headrace.spark.offsets import partition_offsets
from headrace.spark.options import ReadOptions
from headrace.spark.ranges import OffsetRange
from headrace.spark.stream_offset import StreamOffset, batch_ranges

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class CheckpointOffsets:
    """Of a query with one source, which is ours."""

    def __init__(self, spark: "SparkSession", checkpoint: str, options: ReadOptions) -> None:
        self._folder = TableFolder(spark, checkpoint)
        self._options = options

    def __call__(self, number: int) -> BatchOffsets:
        end = self._end(number)
        start = self._end(number - 1) if number else StreamOffset({}, is_initial=True)
        ranges, unsaid = batch_ranges(start, end)
        if unsaid:
            raise LoadError(
                f"the checkpoint {self._folder.location} does not say where batch {number} begins in "
                f"{min(unsaid)}: load with another --checkpoint"
            )
        if not self._options.fail_on_data_loss:
            ranges = self._without_lost(ranges)
        return BatchOffsets(ranges, end.ids, self._options.is_committed)

    def _without_lost(self, ranges: list[OffsetRange]) -> list[OffsetRange]:
        """The tasks pass over what is gone, and the table is not to say that it has it."""
        with closing(partition_offsets(self._options)) as asked:
            begins = asked.earliest([each.topic_partition for each in ranges])
        return [
            replace(each, start=min(each.end, max(each.start, begins[each.topic_partition])))
            for each in ranges
        ]

    def _end(self, number: int) -> StreamOffset:
        lines = self._folder.read(f"offsets/{number}").splitlines()
        return StreamOffset.from_json(json.loads(lines[-1]))
