"""A Delta table, through the `deltalake` library: no jar, and any engine that knows Delta reads it.

A batch is one commit of the Delta log. It names the files, which stay where the executors wrote them, and
sets the application transaction (load id -> batch number) that tells a repeated batch from a new one.
"""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from headrace.base.ids import TopicPartition
from headrace.spark.history.delta_history import delta_holdings, held_transactions
from headrace.spark.history.held import Holdings
from headrace.spark.loads.folders import TableFolder
from headrace.spark.loads.schema_changes import FormatRules, not_null_dropped, plain_schema
from headrace.spark.loads.staging import DataFile
from headrace.spark.loads.stores import Settings, delta_options
from headrace.spark.loads.tables import LoadBatch, TableLayout
from headrace.spark.loads.upserts import TOMBSTONE, Upsert

_CREATED_BY: Final = "headrace load"


class DeltaLoadTable:
    """See above."""

    keeps_partition_columns = False
    keeps_staged_files = True
    # Delta widens only tables of a reader's feature (typeWidening) that few readers have.
    rules = FormatRules("Delta", relaxes_nested=False)

    def __init__(self, folder: TableFolder, partition_by: Sequence[str]) -> None:
        self._folder = folder
        self._partition_by = list(partition_by)

    def staging_path(self, batch: LoadBatch, attempt: str) -> str:
        return f"batch-{batch}-{attempt}"

    def has(self, batch: LoadBatch) -> bool:
        table = self._table()
        return table is not None and _has(table, batch)

    def layout(self, batch: Any) -> TableLayout | None:
        table = self._table()
        if table is None:
            return None
        return TableLayout(_schema(table), tuple(table.metadata().partition_columns))

    def holdings(self, partitions: Sequence[TopicPartition]) -> Holdings:
        table = self._table()
        return Holdings() if table is None else delta_holdings(table, partitions)

    def add(
        self, batch: LoadBatch, files: Sequence[DataFile], schema: Any, held: Holdings | None = None
    ) -> None:
        from deltalake.transaction import AddAction, CommitProperties, Transaction

        table = self._evolved(schema)
        if _has(table, batch):  # another run of this load; one that comes from here on is refused by Delta
            return
        actions: list[Any] = [
            AddAction(
                path=each.path,
                size=each.size_bytes,
                partition_values=each.partition,
                modification_time=each.modified_ms,
                data_change=True,
                stats=_stats(each),
            )
            for each in files
        ]
        numbers = {batch.load_id: batch.number, **({} if held is None else held_transactions(held))}
        properties = CommitProperties(app_transactions=[Transaction(*each) for each in numbers.items()])
        table.create_write_transaction(
            actions, "append", table.schema(), self._partition_by, commit_properties=properties
        )

    def merge(self, batch: LoadBatch, upsert: Upsert) -> None:
        from deltalake.transaction import CommitProperties, Transaction

        table = self._evolved(upsert.schema)
        same = " AND ".join(f"t.{_quoted(each)} = s.{_quoted(each)}" for each in upsert.key)
        values = {_quoted(each): f"s.{_quoted(each)}" for each in upsert.schema.names}
        mark = f"s.{_quoted(TOMBSTONE)}"
        (
            table.merge(
                upsert.changes(),
                same,
                source_alias="s",
                target_alias="t",
                commit_properties=CommitProperties(
                    app_transactions=[Transaction(batch.load_id, batch.number)]
                ),
            )
            .when_matched_delete(mark)
            .when_matched_update(values, f"NOT {mark}")
            .when_not_matched_insert(values, f"NOT {mark}")
            .execute()
        )

    def _table(self) -> Any:
        from deltalake import DeltaTable

        if not self._folder.exists("_delta_log"):
            return None
        location = self._folder.location
        return DeltaTable(location, storage_options=delta_options(location, self._folder.settings))

    def _evolved(self, schema: Any) -> Any:
        """The table with at least these columns. They come by commits of their own before the batch's:
        columns that are null everywhere harm nobody, should that be all that happens."""
        from deltalake import DeltaTable, Schema

        table = self._table()
        if table is None:
            location = self._folder.location
            return DeltaTable.create(
                location,
                schema,
                partition_by=self._partition_by,
                description=_CREATED_BY,
                storage_options=delta_options(location, self._folder.settings),
            )
        before = _schema(table)
        for name in not_null_dropped(before, schema):
            table.alter.drop_column_not_null(name)
        # Nested fields are added by naming the whole column; nullability is looked at above.
        by_name = {each.name: each for each in before}
        wanted = [each for each in schema if each.name not in by_name or by_name[each.name].type != each.type]
        if wanted:
            import pyarrow as pa

            table.alter.add_columns(list(Schema.from_arrow(pa.schema(wanted)).fields))
        return self._table()


def delta_rows(place: str, settings: Settings) -> Any:
    """All rows of a table, as one of Arrow."""
    from deltalake import DeltaTable

    return DeltaTable(place, storage_options=delta_options(place, settings)).to_pyarrow_table()


def _has(table: Any, batch: LoadBatch) -> bool:
    version = table.transaction_version(batch.load_id)
    return version is not None and version >= batch.number


def _stats(file: DataFile) -> str:
    """As the Delta log has it, so that readers can pass over files (specification, "Per-file Statistics")."""
    return json.dumps(
        {
            "numRecords": file.row_count,
            "minValues": {name: _stat(least) for name, (least, _) in file.bounds.items()},
            "maxValues": {name: _stat(most, round_up=True) for name, (_, most) in file.bounds.items()},
        }
    )


def _stat(value: Any, *, round_up: bool = False) -> Any:
    """Times are texts in milliseconds."""
    if not isinstance(value, datetime):
        return value
    if round_up:
        value += timedelta(microseconds=-value.microsecond % 1000)
    text = value.isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _schema(table: Any) -> Any:
    import pyarrow as pa

    return plain_schema(pa.schema(table.schema().to_arrow()))
