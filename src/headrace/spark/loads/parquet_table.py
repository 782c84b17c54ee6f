"""A folder of Parquet files, into which batches come whole by a manifest and renames.

    table/
      date=2026-01-31/1f0c7a52-00000003-00000.parquet     what readers see
      _common_metadata                                    all columns, as Spark and pyarrow look for them
      _headrace/staging/1f0c7a52-00000003-…/              an attempt that is not decided
      _headrace/batches/1f0c7a52-00000003.json            a decision: what goes where

Readers of Parquet folders pass over names that begin with an underscore. The manifest appears by one rename.
From then on the batch counts as loaded, and what is left is renaming its files, which any later run finishes.
A reader that comes in between sees some of a batch's files: who needs whole batches takes Delta or Iceberg.

Files that came before a column was added do not have it. `_common_metadata`, a Parquet footer without rows,
has the columns of all: Spark reads it by itself, to other readers it can be given as the schema. It also
keeps by which columns the table is partitioned, and is written before the manifest of the first batch that
needs it.
"""

import base64
import io
import json
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.base.ids import TopicPartition
from headrace.spark.history.held import Holdings
from headrace.spark.loads.folders import TableFolder
from headrace.spark.loads.schema_changes import FormatRules, compare, plain_schema, told
from headrace.spark.loads.staging import DataFile, partition_of
from headrace.spark.loads.tables import LoadBatch, LoadError, TableLayout
from headrace.spark.loads.upserts import Upsert

_OWN: Final = "_headrace"
_COLUMNS: Final = "_common_metadata"
_SCHEMA_KEY: Final = b"headrace.schema"
_PARTITION_KEY: Final = b"headrace.partition-by"


class ParquetTable:
    """See above."""

    keeps_partition_columns = False
    keeps_staged_files = False
    # Files stay as they are, and most readers take the types of the first one for all.
    rules = FormatRules("Parquet")

    def __init__(self, folder: TableFolder, partition_by: Sequence[str]) -> None:
        self._folder = folder
        self._partition_by = tuple(partition_by)

    def staging_path(self, batch: LoadBatch, attempt: str) -> str:
        return f"{_OWN}/staging/{batch}-{attempt}"

    def has(self, batch: LoadBatch) -> bool:
        manifest = self._manifest(batch)
        if not self._folder.exists(manifest):
            return False
        self._publish(json.loads(self._folder.read(manifest))["renames"])
        return True

    def holdings(self, partitions: Sequence[TopicPartition]) -> Holdings:
        raise AssertionError("a folder of files has no versions, and is no history")

    def add(
        self, batch: LoadBatch, files: Sequence[DataFile], schema: Any, held: Holdings | None = None
    ) -> None:
        layout = TableLayout(schema, self._partition_by)
        if self._said() != layout:
            self._folder.replace(_COLUMNS, _columns_file(layout))
        renames = {each.path: self._target(batch, at, each) for at, each in enumerate(files)}
        rows = sum(each.row_count for each in files)
        self._folder.make(f"{_OWN}/batches")
        self._folder.write_new(
            self._manifest(batch), json.dumps({"batch": str(batch), "rows": rows, "renames": renames})
        )
        self._publish(renames)

    def merge(self, batch: LoadBatch, upsert: Upsert) -> None:
        raise LoadError("Parquet files cannot be changed: upserts need a Delta or Iceberg table")

    def layout(self, batch: Any) -> TableLayout | None:
        return self._said() or self._found(batch)

    def _said(self) -> TableLayout | None:
        """What `_common_metadata` says; that of others is passed over, as it has no partition columns."""
        if not self._folder.exists(_COLUMNS):
            return None
        with self._folder.opened(_COLUMNS) as file:
            said = pq.read_schema(file).metadata or {}
        if _SCHEMA_KEY not in said or _PARTITION_KEY not in said:
            return None
        schema = pa.ipc.read_schema(pa.BufferReader(base64.b64decode(said[_SCHEMA_KEY])))
        return TableLayout(schema, tuple(json.loads(said[_PARTITION_KEY])))

    def _found(self, batch: Any) -> TableLayout | None:
        """What the files of a folder have that nobody has said it of."""
        files = [each.path for each in self._folder.files("", ".parquet") if not _is_hidden(each.path)]
        if not files:
            return None
        partition_by = tuple(partition_of(files[0]))
        schema = pa.schema([])
        for each in files:
            with self._folder.opened(each) as file:
                own = plain_schema(pq.read_schema(file))
            comparison = compare(schema, own, self.rules) if len(schema) else None
            if comparison is not None and comparison.refused("evolve"):
                raise LoadError(
                    f"the files of {self._folder.uri} do not go together, {each} is another table's: "
                    f"{told(comparison.refused('evolve'))}. Load into another folder"
                )
            schema = own if comparison is None else comparison.schema
        fields = [each.with_nullable(True) for each in schema]
        # In the order of the rows to come, as far as they have them: files leave partition columns out.
        known = {each.name for each in fields}
        for at, each in enumerate(batch):
            if each.name in partition_by and each.name not in known:
                fields.insert(at, each.with_nullable(True))
        return TableLayout(pa.schema(fields), partition_by)

    def _publish(self, renames: dict[str, str]) -> None:
        for source, target in renames.items():
            if self._folder.exists(source):
                self._folder.rename(source, target)

    def _target(self, batch: LoadBatch, at: int, file: DataFile) -> str:
        folders = [part for part in file.path.split("/")[:-1] if "=" in part]
        return "/".join([*folders, f"{batch}-{at:05d}.parquet"])

    def _manifest(self, batch: LoadBatch) -> str:
        return f"{_OWN}/batches/{batch}.json"


def _columns_file(layout: TableLayout) -> bytes:
    """A footer without rows. Readers know partition columns from the folders' names."""
    said = {
        _SCHEMA_KEY: base64.b64encode(layout.schema.serialize().to_pybytes()),
        _PARTITION_KEY: json.dumps(layout.partition_by).encode(),
    }
    own = [each for each in layout.schema if each.name not in layout.partition_by]
    out = io.BytesIO()
    pq.write_metadata(pa.schema(own, said), out)
    return out.getvalue()


def _is_hidden(path: str) -> bool:
    """What readers of Parquet folders pass over."""
    return any(part.startswith(("_", ".")) and "=" not in part for part in path.split("/"))
