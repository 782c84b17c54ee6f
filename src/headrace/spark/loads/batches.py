"""The way of one batch into a table; to be called by `foreachBatch`.

writer = BatchWriter(TableTarget("delta", "/data/orders", partition_by=("date",)))
stream.writeStream.foreachBatch(writer).option("checkpointLocation", …).start()
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.spark.loads.folders import Folder
from headrace.spark.loads.staging import stage
from headrace.spark.loads.tables import LoadBatch, LoadTable, open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class TableTarget:
    """Which table, and how its files are laid."""

    kind: str
    path: str
    partition_by: tuple[str, ...] = ()
    file_count: int | None = None
    """The most files of an unpartitioned batch; None leaves one to each task."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What became of a batch; `is_new` is False where it was in the table already."""

    batch: LoadBatch
    is_new: bool
    rows: int = 0
    files: int = 0
    bytes: int = 0


class BatchWriter:
    """Writes each batch once, however often Spark hands it over."""

    def __init__(
        self, target: TableTarget, *, load_id: str | None = None, tell: Callable[[Loaded], None] | None = None
    ) -> None:
        self._target = target
        self._load_id = load_id
        self._tell = tell
        self._table: tuple[Folder, LoadTable] | None = None

    def __call__(self, rows: "DataFrame", number: int) -> None:
        loaded = self.write(rows, number)
        if self._tell is not None:
            self._tell(loaded)

    def write(self, rows: "DataFrame", number: int) -> Loaded:
        folder, table = self._opened(rows)
        batch = LoadBatch(self._load_id or _query_id(rows), number)
        if table.has(batch):
            return Loaded(batch, is_new=False)
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
        if not files or table.has(batch):
            folder.delete(path)
            return Loaded(batch, is_new=not files)
        table.add(batch, files, rows.schema)
        _clean(folder, table, batch, attempt)
        counts = [(each.row_count, each.size_bytes) for each in files]
        return Loaded(
            batch, True, sum(rows for rows, _ in counts), len(files), sum(size for _, size in counts)
        )

    def _opened(self, rows: "DataFrame") -> tuple[Folder, LoadTable]:
        if self._table is None:
            folder = Folder(rows.sparkSession, self._target.path)
            self._table = folder, open_table(self._target.kind, folder, self._target.partition_by)
        return self._table


def _clean(folder: Folder, table: LoadTable, batch: LoadBatch, attempt: str) -> None:
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
