"""Rows of the source out of a history's files: what a task does that reads the table's part."""

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from headrace.spark.columns import arrow_schema
from headrace.spark.history.snapshot import FilePart, HistoryFile
from headrace.spark.loads.stores import open_store, shared_settings
from headrace.spark.ranges import OffsetRange, TimeWindow
from headrace.spark.reading import BATCH_ROWS_MAX


def part_rows(
    part: FilePart, columns: Sequence[str], window: TimeWindow | None = None
) -> Iterator[pa.RecordBatch]:
    """Batches of exactly these columns of the source."""
    fragment = _fragment(part.file.location)
    if part.pieces > 1:
        fragment = fragment.subset(row_group_ids=_groups(fragment.num_row_groups, part))
    there = set(fragment.physical_schema.names)
    scanner = fragment.scanner(
        columns=[name for name in columns if name in there],
        filter=_condition(part, window),
        batch_size=BATCH_ROWS_MAX,
        use_threads=False,
    )
    schema = arrow_schema(columns)
    for batch in scanner.to_batches():
        if batch.num_rows:
            yield _fitted(batch, schema, part.file)


def _groups(count: int, part: FilePart) -> list[int]:
    return list(range(count * part.piece // part.pieces, count * (part.piece + 1) // part.pieces))


def _fragment(location: str) -> Any:
    system, path = open_store(location, shared_settings())
    return ds.ParquetFileFormat().make_fragment(path, system)


def _condition(part: FilePart, window: TimeWindow | None) -> Any:
    """As an expression of Arrow, which also passes over groups of rows by it."""
    wanted = reduce(lambda one, other: one | other, [_inside(part.file, each) for each in part.ranges])
    if window is None:
        return wanted
    kind = arrow_schema(("timestamp",)).field(0).type
    time = pc.field("timestamp")
    for bound, is_inside in ((window.first_us, time.__ge__), (window.last_us, time.__le__)):
        if abs(bound) < 1 << 62:  # else it is open on this side
            wanted = wanted & is_inside(pa.scalar(bound, kind))
    return wanted


def _inside(file: HistoryFile, wanted: OffsetRange) -> Any:
    found = (pc.field("offset") >= wanted.start) & (pc.field("offset") < wanted.end)
    if "partition" not in file.constants:
        found = found & (pc.field("partition") == wanted.partition)
    if "topic" not in file.constants:
        found = found & (pc.field("topic") == wanted.topic)
    return found


def _fitted(batch: Any, schema: pa.Schema, file: HistoryFile) -> pa.RecordBatch:
    arrays = []
    for field in schema:
        if field.name in file.constants:
            arrays.append(pa.repeat(pa.scalar(file.constants[field.name], field.type), batch.num_rows))
        elif field.name in batch.schema.names:
            arrays.append(_cast(batch.column(field.name), field.type))
        else:  # a file that is older than the column
            arrays.append(pa.nulls(batch.num_rows, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast(column: Any, kind: pa.DataType) -> Any:
    return column if column.type == kind else column.cast(kind)
