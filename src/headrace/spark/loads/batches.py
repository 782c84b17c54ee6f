"""The way of one batch into a table; to be called by `foreachBatch`.

writer = BatchWriter(TableTarget("delta", "/data/orders", partition_by=("date",)))
stream.writeStream.foreachBatch(writer).option("checkpointLocation", …).start()
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.spark.loads.folders import TableFolder
from headrace.spark.loads.iceberg_catalog import is_in_catalog
from headrace.spark.loads.staging import stage
from headrace.spark.loads.tables import LoadBatch, LoadTable, arrow_schema, fitted, spark_schema, table_at
from headrace.spark.loads.upserts import STAGED_UPSERTS, last_changes, marked, read_upsert, without_mark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.spark.history.held import BatchOffsets, Holdings
    from headrace.spark.loads.compaction import CompactionThread


@dataclass(frozen=True, slots=True)
class TableTarget:
    """Which table, and how its files are laid."""

    kind: str
    path: str
    partition_by: tuple[str, ...] = ()
    file_count: int | None = None
    """The most files of an unpartitioned batch; None leaves one to each task."""
    schema: str = "evolve"
    """What becomes of rows whose columns are not the table's: see `schema_changes`."""
    key: tuple[str, ...] = ()
    """Columns by which rows replace those that are there: see `upserts`."""
    compact: int | None = None
    """How many small files are joined into large ones, beside the batches or, with a key, between them; None
    leaves them."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What became of a batch; `is_new` is False where it was in the table already."""

    batch: LoadBatch
    is_new: bool
    rows: int = 0
    files: int = 0
    bytes: int = 0
    deletes: int = 0
    """Rows that were to be deleted by their key, whether they were there or not."""


class BatchWriter:
    """Writes each batch once, however often Spark hands it over."""

    def __init__(
        self,
        target: TableTarget,
        *,
        load_id: str | None = None,
        tell: Callable[[Loaded], None] | None = None,
        offsets: "Callable[[int], BatchOffsets] | None" = None,
    ) -> None:
        """`offsets` tells those of a batch by its number, for a table that is to be a topic's history."""
        self._target = target
        self._offsets = offsets
        self._load_id = load_id
        self._tell = tell
        self._table: tuple[TableFolder, LoadTable] | None = None
        self._compaction: CompactionThread | None = None

    def __call__(self, rows: "DataFrame", number: int) -> None:
        loaded = self.write(rows, number)
        if self._tell is not None:
            self._tell(loaded)
        if self._target.compact is not None and loaded.is_new:
            self._join_small_files(self._target.compact)

    def close(self) -> None:
        """No more batches: files that are being joined now are the last."""
        if self._compaction is not None:
            self._compaction.close()
            self._compaction = None

    def _join_small_files(self, least: int) -> None:
        from headrace.spark.loads.compaction import CompactionThread, compact_if_possible

        assert self._table is not None, "a batch was written"
        folder, _ = self._table
        place = self._target.path if is_in_catalog(self._target.path) else folder.location
        if self._target.key:  # beside a merge, one of the two would be refused
            compact_if_possible(self._target.kind, place, folder.settings, least=least)
            return
        if self._compaction is None:
            self._compaction = CompactionThread(self._target.kind, place, folder.settings, least=least)
        self._compaction.look()

    def write(self, rows: "DataFrame", number: int) -> Loaded:
        folder, table = self._opened(rows)
        batch = LoadBatch(self._load_id or _query_id(rows), number)
        if table.has(batch):
            return Loaded(batch, is_new=False)
        if self._target.key:
            return self._upsert(folder, table, batch, rows)
        held = self._held(folder, table, number)
        batch_schema = arrow_schema(rows.schema)
        wanted = fitted(table, folder.location, batch_schema, self._target.partition_by, self._target.schema)
        if wanted != batch_schema:
            rows = rows.to(spark_schema(wanted))
        attempt = uuid.uuid4().hex[:8]
        path = table.staging_path(batch, attempt)
        files = stage(
            rows,
            folder,
            path,
            partition_by=self._target.partition_by,
            keep_columns=table.keeps_partition_columns,
            file_count=self._target.file_count,
        )
        # Another run of this load may have come first: a driver that was thought dead.
        if (not files and held is None) or table.has(batch):
            folder.delete(path)
            return Loaded(batch, is_new=not files)
        table.add(batch, files, wanted, held)
        _clean(folder, table, batch, attempt)
        counts = [(each.row_count, each.size_bytes) for each in files]
        return Loaded(
            batch, True, sum(rows for rows, _ in counts), len(files), sum(size for _, size in counts)
        )

    def _upsert(self, folder: TableFolder, table: LoadTable, batch: LoadBatch, rows: "DataFrame") -> Loaded:
        """The changes of a batch, one for each key, are few: the driver merges them."""
        target = self._target
        own = arrow_schema(without_mark(rows).schema)
        wanted = fitted(table, folder.location, own, target.partition_by, target.schema)
        path = f"{STAGED_UPSERTS}/{batch}-{uuid.uuid4().hex[:8]}"
        changes = last_changes(marked(rows, spark_schema(wanted)), target.key)
        files = stage(changes, folder, path, partition_by=(), keep_columns=True, file_count=target.file_count)
        try:
            if not files or table.has(batch):
                return Loaded(batch, is_new=not files)
            upsert = read_upsert(folder, files, wanted, target.key)
            table.merge(batch, upsert)
        finally:
            folder.delete(path)
        return Loaded(batch, True, upsert.rows.num_rows, deletes=upsert.deletes.num_rows)

    def _held(self, folder: TableFolder, table: LoadTable, number: int) -> "Holdings | None":
        """What the table is to hold with this batch, where it is a history."""
        if self._offsets is None:
            return None
        from headrace.spark.history.held import followed_by

        batch = self._offsets(number)
        before = table.holdings([each.topic_partition for each in batch.ranges])
        return followed_by(before, batch, f"the {table.rules.name} table {folder.location}")

    def _opened(self, rows: "DataFrame") -> tuple[TableFolder, LoadTable]:
        if self._table is None:
            target = self._target
            self._table = table_at(rows.sparkSession, target.kind, target.path, target.partition_by)
        return self._table


def _clean(folder: TableFolder, table: LoadTable, batch: LoadBatch, attempt: str) -> None:
    """The batch is decided: what other attempts at it have staged will never be part of the table."""
    place, _, name = table.staging_path(batch, "").rpartition("/")
    own = name + attempt if table.keeps_staged_files else None
    for each in folder.children(place):
        if each.startswith(name) and each != own:
            folder.delete(f"{place}/{each}" if place else each)


def _query_id(rows: "DataFrame") -> str:
    """Of the streaming query that this batch is part of."""
    found = rows.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    assert found is not None, "outside of a streaming query a load needs an id"
    return found
