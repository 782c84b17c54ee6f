"""The table's part of a query as Spark's tasks: files that can have wanted rows, small ones together."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import InputPartition

from headrace.spark.history.snapshot import FilePart, HistoryFile
from headrace.spark.ranges import OffsetRange, TimeWindow

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.spark.options import ReadOptions

# A quarter of what Spark gives a task that reads files with its own readers: some seconds of work here.
TASK_BYTES: Final = 32 << 20


class HistoryPartition(InputPartition):
    """What one task reads of the table."""

    def __init__(self, parts: Sequence[FilePart], window: TimeWindow | None) -> None:
        super().__init__(None)
        self.parts = parts
        self.window = window


def history_tasks(
    files: Iterable[HistoryFile],
    ranges: Sequence[OffsetRange],
    window: TimeWindow | None,
    *,
    min_partitions: int | None,
) -> list[HistoryPartition]:
    """Tasks for these ranges, of about TASK_BYTES; more and smaller ones where more are wanted."""
    wanted = [(file, parts) for file in files if file.is_within(window) and (parts := file.parts(ranges))]
    total = sum(file.size_bytes for file, _ in wanted)
    task_bytes = min(TASK_BYTES, max(1, total // (min_partitions or 1)))
    groups: list[list[FilePart]] = []
    room = 0
    for file, parts in wanted:
        pieces = max(1, file.size_bytes // task_bytes)
        for piece in range(pieces):
            if not groups or room < file.size_bytes // pieces:
                groups.append([])
                room = task_bytes
            groups[-1].append(FilePart(file, parts, piece, pieces))
            room -= file.size_bytes // pieces
    return [HistoryPartition(group, window) for group in groups]


def read_history(partition: HistoryPartition, options: "ReadOptions") -> "Iterator[pa.RecordBatch]":
    """The rows of a task."""
    from headrace.spark.history.file_rows import part_rows

    for each in partition.parts:
        yield from part_rows(each, options.columns, partition.window)
