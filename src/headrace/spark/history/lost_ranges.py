"""Records that the log has lost while a task reads them, and that the table has by now.

A query fixes what it reads in the log when it is planned. Retention does not wait for it: what was loaded
meanwhile may be removed at once. The task then looks at the table once more, in its newest version.
"""

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from headrace.spark.data_loss import report_data_loss
from headrace.spark.history.union_offsets import UnionOffsets, cut
from headrace.spark.history.union_tasks import history_tasks, read_history
from headrace.spark.options import ReadOptions
from headrace.spark.ranges import OffsetRange, TimeWindow

if TYPE_CHECKING:
    import pyarrow as pa


def rows_from_table(
    lost: OffsetRange, why: str, options: ReadOptions, window: TimeWindow | None
) -> "Iterator[pa.RecordBatch]":
    """The rows of a range that the log has lost; it is data loss where the table has not all of it."""
    with closing(UnionOffsets(options)) as asked:
        held = asked.held([lost.topic_partition]).get(lost.topic_partition)
        kept = cut(lost, held).from_table
        if held is None or [lost] != kept or lost.start < held.complete_from:
            report_data_loss(f"{why}, and {asked.snapshot.place} has not all of them", options)
        tasks = history_tasks(asked.snapshot.files(), kept, window, min_partitions=None) if kept else []
    for each in tasks:
        yield from read_history(each, options)
