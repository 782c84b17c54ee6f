"""A Delta table, through the `deltalake` library: no jar, and any engine that knows Delta reads it.

A batch is one commit of the Delta log. It names the files, which stay where the executors wrote them, and
sets the application transaction (load id -> batch number) that tells a repeated batch from a new one.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from headrace.spark.loads.folders import Folder
from headrace.spark.loads.staging import DataFile
from headrace.spark.loads.tables import LoadBatch, LoadError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_CREATED_BY: Final = "headrace load"


class DeltaLoadTable:
    """See above."""

    keeps_partition_columns = False
    keeps_staged_files = True

    def __init__(self, folder: Folder, partition_by: Sequence[str]) -> None:
        self._folder = folder
        self._partition_by = list(partition_by)

    def staging_path(self, batch: LoadBatch, attempt: str) -> str:
        return f"batch-{batch}-{attempt}"

    def has(self, batch: LoadBatch) -> bool:
        table = self._table()
        version = None if table is None else table.transaction_version(batch.load_id)
        return version is not None and version >= batch.number

    def add(self, batch: LoadBatch, files: Sequence[DataFile], schema: "StructType") -> None:
        from deltalake.transaction import AddAction, CommitProperties, Transaction

        table = self._table()
        if table is None:
            table = self._created(schema)
        self._check(table)
        actions: list[Any] = [
            AddAction(
                path=each.path,
                size=each.size_bytes,
                partition_values=each.partition,
                modification_time=each.modified_ms,
                data_change=True,
                stats=json.dumps({"numRecords": each.row_count}),
            )
            for each in files
        ]
        properties = CommitProperties(app_transactions=[Transaction(batch.load_id, batch.number)])
        table.create_write_transaction(
            actions, "append", table.schema(), self._partition_by, commit_properties=properties
        )

    def _table(self) -> Any:
        from deltalake import DeltaTable

        if not self._folder.exists("_delta_log"):
            return None
        return DeltaTable(self._folder.location)

    def _created(self, schema: "StructType") -> Any:
        from deltalake import DeltaTable

        from headrace.spark.loads.schemas import arrow_schema

        return DeltaTable.create(
            self._folder.location,
            arrow_schema(schema),
            partition_by=self._partition_by,
            description=_CREATED_BY,
        )

    def _check(self, table: Any) -> None:
        found = table.metadata().partition_columns
        if list(found) != self._partition_by:
            raise LoadError(
                f"the Delta table {self._folder.location} is partitioned by {_named(found)}, not by "
                f"{_named(self._partition_by)}: ask for the same, or load into another folder"
            )


def _named(columns: Sequence[str]) -> str:
    return ", ".join(columns) or "nothing"
