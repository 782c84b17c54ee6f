"""Small files of a table, joined into large ones beside the load that makes them.

A load that follows its topic makes files with every batch, and readers pay for each file. Once there are many
small ones, a thread joins them by a commit of its own. Rows stay what they are: who has opened the table
before reads the old files, which stay for a week in Delta and until snapshots expire in Iceberg.

A load only adds, so it and a compaction do not get into each other's way in Delta. In Iceberg the second of
two commits at the same time is refused: the load then commits again, a compaction waits for its next turn.
Batches that are merged by key would have to be merged again, so there files are joined between two of them.
"""

import logging
import threading
import uuid
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from headrace.spark.loads.iceberg_catalog import table_in
from headrace.spark.loads.iceberg_table import without_retries
from headrace.spark.loads.stores import NONE, Settings, delta_options

log = logging.getLogger(__name__)

# Of what Spark gives a task that reads files, the whole and a quarter.
TARGET_BYTES: Final = 128 << 20
SMALL_BYTES: Final = TARGET_BYTES // 4
_ROWS_PER_GROUP: Final = 128 * 1024
_IN_ORDER: Final = ("topic", "partition", "offset")


class Compacted(NamedTuple):
    """How many files became how many."""

    files_before: int
    files_after: int


def compact(kind: str, location: str, settings: Settings = NONE, *, least: int = 2) -> Compacted | None:
    """Join small files where there are at least so many; None where there are not, or another commit came."""
    found = _compact_delta if kind == "delta" else _compact_iceberg
    return found(location, settings, least)


def _compact_delta(location: str, settings: Settings, least: int) -> Compacted | None:
    import pyarrow as pa
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        table = DeltaTable(location, storage_options=delta_options(location, settings))
    except TableNotFoundError:
        return None
    sizes = pa.table(table.get_add_actions()).column("size_bytes").to_pylist()
    if sum(size < SMALL_BYTES for size in sizes) < least:
        return None
    done = table.optimize.compact(target_size=TARGET_BYTES)
    if not done["numFilesRemoved"]:
        return None
    # Without `full` only files that the table had once, and not those that a batch is writing.
    table.vacuum(dry_run=False)
    return Compacted(done["numFilesRemoved"], done["numFilesAdded"])


def _compact_iceberg(location: str, settings: Settings, least: int) -> Compacted | None:
    from pyiceberg.exceptions import CommitFailedException

    found = table_in(location, settings)
    if found is None:
        return None
    table = without_retries(found)
    by_partition: dict[str, list[Any]] = defaultdict(list)
    for task in table.scan().plan_files():
        if task.file.file_size_in_bytes < SMALL_BYTES and not task.delete_files:
            by_partition[repr(task.file.partition)].append(task)
    groups = [group for tasks in by_partition.values() for group in _groups(tasks) if len(group) > 1]
    if sum(map(len, groups)) < least:
        return None
    joined = [_joined(table, group) for group in groups]
    try:
        _replace(table, [task.file for group in groups for task in group], joined)
    except CommitFailedException as error:
        for path in joined:
            table.io.delete(path)
        log.info("%s: files are joined another time, as another commit came first: %s", location, error)
        return None
    return Compacted(sum(map(len, groups)), len(joined))


def _groups(tasks: Sequence[Any]) -> list[list[Any]]:
    """Files in groups that make one of about TARGET_BYTES."""
    groups: list[list[Any]] = []
    room = 0
    for each in tasks:
        if not groups or each.file.file_size_in_bytes > room:
            groups.append([])
            room = TARGET_BYTES
        groups[-1].append(each)
        room -= each.file.file_size_in_bytes
    return groups


def _joined(table: Any, group: Sequence[Any]) -> str:
    """Where a new file with the rows of these is, all in the columns that the table has now."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from headrace.spark.loads.iceberg_files import Files
    from headrace.spark.loads.schema_changes import plain_schema

    files = Files(table.metadata, table.io)
    rows = pa.concat_tables([files.rows(each) for each in group], promote_options="permissive")
    rows = rows.cast(plain_schema(rows.schema))
    assert rows.num_rows == sum(each.file.record_count for each in group), (
        "a file has other rows than the table says"
    )
    if set(_IN_ORDER).issubset(rows.column_names):
        rows = rows.sort_by([(name, "ascending") for name in _IN_ORDER])
    place = f"{table.location().rstrip('/')}/data/joined-{uuid.uuid4().hex}.parquet"
    with table.io.new_output(place).create() as file:
        pq.write_table(rows, file, row_group_size=_ROWS_PER_GROUP)
    return place


def _replace(table: Any, old: Sequence[Any], new: Sequence[str]) -> None:
    from pyiceberg.io.pyarrow import parquet_files_to_data_files

    from headrace.spark.loads.iceberg_files import name_columns

    with table.transaction() as transaction:
        name_columns(transaction)
        properties = {"headrace.compaction": f"{len(old)} files into {len(new)}"}
        with transaction.update_snapshot(snapshot_properties=properties).overwrite() as snapshot:
            for file in old:
                snapshot.delete_data_file(file)
            for file in parquet_files_to_data_files(table.io, transaction.table_metadata, iter(new)):
                snapshot.append_data_file(file)


class CompactionThread:
    """Joins small files beside a load, which says when there are new ones."""

    def __init__(self, kind: str, location: str, settings: Settings = NONE, *, least: int) -> None:
        self._kind = kind
        self._location = location
        self._settings = settings
        self._least = least
        self._news = threading.Condition()
        self._has_news = False
        self._is_closed = False
        self._thread = threading.Thread(target=self._serve, name="headrace-compaction", daemon=True)
        self._thread.start()

    def look(self) -> None:
        """There are new files."""
        with self._news:
            self._has_news = True
            self._news.notify()

    def close(self) -> None:
        """Ends after what it does now."""
        with self._news:
            self._is_closed = True
            self._news.notify()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._has_news or self._is_closed)
                if not self._has_news:
                    return
                self._has_news = False
            compact_if_possible(self._kind, self._location, self._settings, least=self._least)


def compact_if_possible(kind: str, location: str, settings: Settings, *, least: int) -> None:
    """The log says what came of it."""
    try:
        done = compact(kind, location, settings, least=least)
    except Exception as error:  # whatever it is, the load goes on: the table is as it was
        log.warning("%s: small files were not joined, the next batch tries again: %s", location, error)
        return
    if done is not None:
        log.info("%s: joined %d small files into %d", location, *done)
