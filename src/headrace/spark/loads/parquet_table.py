"""A folder of Parquet files, into which batches come whole by a manifest and renames.

    table/
      date=2026-01-31/1f0c7a52-00000003-00000.parquet     what readers see
      _headrace/staging/1f0c7a52-00000003-…/              an attempt that is not decided
      _headrace/batches/1f0c7a52-00000003.json            a decision: what goes where

Readers of Parquet folders pass over names that begin with an underscore. The manifest appears by one rename.
From then on the batch counts as loaded, and what is left is renaming its files, which any later run finishes.
A reader that comes in between sees some of a batch's files: who needs whole batches takes Delta or Iceberg.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from headrace.spark.loads.folders import Folder
from headrace.spark.loads.staging import DataFile
from headrace.spark.loads.tables import LoadBatch

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_OWN: Final = "_headrace"


class ParquetTable:
    """See above."""

    keeps_partition_columns = False
    keeps_staged_files = False

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def staging_path(self, batch: LoadBatch, attempt: str) -> str:
        return f"{_OWN}/staging/{batch}-{attempt}"

    def has(self, batch: LoadBatch) -> bool:
        manifest = self._manifest(batch)
        if not self._folder.exists(manifest):
            return False
        self._publish(json.loads(self._folder.read(manifest))["renames"])
        return True

    def add(self, batch: LoadBatch, files: Sequence[DataFile], schema: "StructType") -> None:
        renames = {each.path: self._target(batch, at, each) for at, each in enumerate(files)}
        rows = sum(each.row_count for each in files)
        self._folder.make(f"{_OWN}/batches")
        self._folder.write_new(
            self._manifest(batch), json.dumps({"batch": str(batch), "rows": rows, "renames": renames})
        )
        self._publish(renames)

    def _publish(self, renames: dict[str, str]) -> None:
        for source, target in renames.items():
            if self._folder.exists(source):
                self._folder.rename(source, target)

    def _target(self, batch: LoadBatch, at: int, file: DataFile) -> str:
        folders = [part for part in file.path.split("/")[:-1] if "=" in part]
        return "/".join([*folders, f"{batch}-{at:05d}.parquet"])

    def _manifest(self, batch: LoadBatch) -> str:
        return f"{_OWN}/batches/{batch}.json"
