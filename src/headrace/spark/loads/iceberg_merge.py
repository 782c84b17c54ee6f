"""The files of an Iceberg table in which rows have the keys of a batch, and new ones without those rows.

Files that cannot have one of the keys are left out by what the table says of each file: by the values
themselves where a column has few, else by the least and the greatest. Of the rest only the key's columns are
read, of many small files at once, and joined with the changed keys in Arrow: that takes as long for ten
columns as for one, and grows with the rows, not with keys times files. A file that has such rows is read
whole, alone, and what is left of it written anew. So the driver holds the changes and one file at a time.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.spark.loads.iceberg_files import Files
from headrace.spark.loads.upserts import Upsert

# More values than these pyiceberg does not compare with a file's bounds (IN_PREDICATE_LIMIT).
_VALUES_MAX: Final = 200
# Whose keys are joined at once: a table of the keys is built for each join, whatever comes to meet it.
_ROWS_PER_JOIN: Final = 1 << 20
# Small reads from a store are waiting for the most part.
_READERS: Final = 8
_ROW: Final = "_headrace_row"


class Rewritten(NamedTuple):
    """A file of the table, and what comes into its place: nothing where it had no other rows."""

    old: Any
    new: tuple[Any, ...]


def rewritten(table: Any, metadata: Any, upsert: Upsert) -> Iterator[Rewritten]:
    """Every file with rows of the changed keys; `metadata` has the columns that the batch brings already."""
    keys = comparable(upsert.keys())
    known = table.schema().column_names
    if not keys.num_rows or not all(name in known for name in upsert.key):
        return
    files = Files(metadata, table.io)
    tasks = list(table.scan(row_filter=candidates(keys)).plan_files())
    for task, is_touched in _touched(files, tasks, keys):
        rows = files.rows(task)
        assert rows.num_rows == len(is_touched), "a file's columns are of different lengths"
        yield Rewritten(task.file, files.write(rows.filter(pc.invert(is_touched))))


def candidates(keys: Any) -> Any:
    """What pyiceberg is to look for: files that may have one of the keys."""
    from pyiceberg import expressions

    of: Any = expressions  # whose classes take more than their types say
    found = of.AlwaysTrue()
    for name in keys.column_names:
        column = keys.column(name)
        if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
            continue  # bounds say nothing of NaN
        values = column.unique()
        if len(values) <= _VALUES_MAX:
            found = of.And(found, of.In(name, values.to_pylist()))
        else:
            least, greatest = pc.min_max(column).as_py().values()
            between = of.And(of.GreaterThanOrEqual(name, least), of.LessThanOrEqual(name, greatest))
            found = of.And(found, between)
    return found


def _touched(files: Files, tasks: Sequence[Any], keys: Any) -> Iterator[tuple[Any, Any]]:
    """The files with rows of these keys, each with a mark for every row."""
    with ThreadPoolExecutor(_READERS) as readers:
        for group in _groups(tasks):
            own = list(readers.map(lambda task: files.rows(task, keys.column_names), group))
            found = pa.concat_tables([comparable(each.select(keys.column_names)) for each in own])
            marks = is_among(found.cast(keys.schema), keys)
            start = 0
            for task, rows in zip(group, own, strict=True):
                is_touched = marks.slice(start, rows.num_rows)
                start += rows.num_rows
                if pc.any(is_touched).as_py():
                    yield task, is_touched


def _groups(tasks: Sequence[Any]) -> Iterator[list[Any]]:
    """Files whose keys are joined at once; a large one is alone."""
    group: list[Any] = []
    room = _ROWS_PER_JOIN
    for task in tasks:
        if group and task.file.record_count > room:
            yield group
            group, room = [], _ROWS_PER_JOIN
        group.append(task)
        room -= task.file.record_count
    if group:
        yield group


def is_among(rows: Any, keys: Any) -> Any:
    """For each row whether it is one of the keys; one with a null is none."""
    numbered = rows.append_column(_ROW, pa.array(np.arange(rows.num_rows)))
    hits = numbered.join(keys, keys.column_names, join_type="left semi").column(_ROW)
    return pc.is_in(numbered.column(_ROW), value_set=hits)


def comparable(keys: Any) -> Any:
    """As Arrow joins them: bit by bit, and there is more than one zero and more than one NaN."""
    for at, name in enumerate(keys.column_names):
        column = keys.column(name)
        if pa.types.is_floating(column.type):
            zero, nan = (pa.scalar(each, column.type) for each in (0.0, float("nan")))
            keys = keys.set_column(at, name, pc.if_else(pc.is_nan(column), nan, pc.add(column, zero)))
    return keys
