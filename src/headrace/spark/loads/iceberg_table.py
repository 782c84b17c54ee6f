"""An Iceberg table, through the `pyiceberg` library: no jar.

Iceberg tables are found through a catalogue: one that the session names, or a small SQLite file inside a
local folder (`iceberg_catalog.py`). pyiceberg opens that as `SqlCatalog("headrace",
uri="sqlite:///FOLDER/catalog.db")`, and what is in the folder can be registered with any other catalogue by
its newest metadata file.

A batch is one commit: its files are added as they are, and a table property says the last batch of the load.
The property is in the table's metadata, so that it outlives the snapshots, which expire.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa

from headrace.base.ids import TopicPartition
from headrace.spark.history.held import HELD_PROPERTY, Holdings, holdings_from_text, holdings_text
from headrace.spark.loads.folders import TableFolder
from headrace.spark.loads.iceberg_catalog import CatalogTable, local_table
from headrace.spark.loads.schema_changes import FormatRules, plain_schema
from headrace.spark.loads.staging import DataFile
from headrace.spark.loads.tables import LoadBatch, LoadError, TableLayout
from headrace.spark.loads.upserts import Upsert

_PROPERTY: Final = "headrace.load."
# Each refusal means that another commit was taken, and only compactions come beside a load.
_COMMITS_MAX: Final = 5


def widens(before: Any, after: Any) -> bool:
    """Iceberg's type promotion (specification, "Schema Evolution")."""
    if pa.types.is_decimal128(before) and pa.types.is_decimal128(after):
        return bool(before.scale == after.scale and before.precision < after.precision)
    return (before, after) in ((pa.int32(), pa.int64()), (pa.float32(), pa.float64()))


class IcebergLoadTable:
    """See above."""

    keeps_partition_columns = True
    keeps_staged_files = True
    rules = FormatRules("Iceberg", widens, has_small_ints=False)

    def __init__(
        self, folder: TableFolder, partition_by: Sequence[str], named: CatalogTable | None = None
    ) -> None:
        """Without a name in a catalogue the folder has its own."""
        if named is None and not folder.is_local:
            raise LoadError(
                f"{folder.uri}: an Iceberg table's folder has its catalogue in it, on a local disk. "
                "A table elsewhere is named in a catalogue: write catalog://NAME/NAMESPACE.TABLE, and set "
                "spark.sql.catalog.NAME.type, .uri and .warehouse"
            )
        self._named = named
        self._local: CatalogTable | None = None  # opened once: that is half the work of a small commit
        self._folder = folder
        self._partition_by = list(partition_by)

    def staging_path(self, batch: LoadBatch, attempt: str) -> str:
        return f"data/batch-{batch}-{attempt}"

    def has(self, batch: LoadBatch) -> bool:
        table = self._found().load()
        return table is not None and _has(table, batch)

    def layout(self, batch: Any) -> TableLayout | None:
        table = self._found().load()
        if table is None:
            return None
        return TableLayout(table.schema().as_arrow(), tuple(field.name for field in table.spec().fields))

    def holdings(self, partitions: Sequence[TopicPartition]) -> Holdings:
        table = self._found().load()
        if table is None:
            return Holdings()
        return holdings_from_text(table.properties.get(HELD_PROPERTY), partitions)

    def add(
        self, batch: LoadBatch, files: Sequence[DataFile], schema: Any, held: Holdings | None = None
    ) -> None:
        self._committed(batch, schema, lambda table: self._commit(table, batch, files, schema, held))

    def _committed(self, batch: LoadBatch, schema: Any, commit: Callable[[Any], None]) -> None:
        """One commit, unless the batch is in the table."""
        from pyiceberg.exceptions import CommitFailedException

        for left in reversed(range(_COMMITS_MAX)):
            table = without_retries(self._opened(schema))
            if _has(table, batch):
                return
            try:
                commit(table)
            except CommitFailedException:  # a compaction, or another run of this load, came first
                if not left:
                    raise
            else:
                return

    def _commit(
        self, table: Any, batch: LoadBatch, files: Sequence[DataFile], schema: Any, held: Holdings | None
    ) -> None:
        # Other engines may know the store by another scheme than Hadoop does: the table's is right for all.
        base = self._folder.location if self._named is None else table.location().rstrip("/")
        paths = [f"{base}/{each.path}" for each in files]
        properties = {_PROPERTY + batch.load_id: str(batch.number)}
        if held is not None:
            properties[HELD_PROPERTY] = holdings_text(held, table.properties.get(HELD_PROPERTY))
        with table.transaction() as transaction:
            self._evolve(table, transaction, schema)
            transaction.set_properties(properties)
            if files:
                transaction.add_files(paths, snapshot_properties={"headrace.batch": str(batch)})

    def merge(self, batch: LoadBatch, upsert: Upsert) -> None:
        self._committed(batch, upsert.schema, lambda table: self._merge(table, batch, upsert))

    def _merge(self, table: Any, batch: LoadBatch, upsert: Upsert) -> None:
        """All in one snapshot: whoever reads sees a key's old row or its new one."""
        from pyiceberg.exceptions import CommitFailedException

        from headrace.spark.loads.iceberg_files import Files, name_columns
        from headrace.spark.loads.iceberg_merge import rewritten

        written: list[Any] = []
        try:
            with table.transaction() as transaction:
                self._evolve(table, transaction, upsert.schema)
                transaction.set_properties({_PROPERTY + batch.load_id: str(batch.number)})
                name_columns(transaction)
                metadata = transaction.table_metadata
                old = []
                for each in rewritten(table, metadata, upsert):
                    old.append(each.old)
                    written.extend(each.new)
                written.extend(Files(metadata, table.io).write(upsert.rows))
                if old or written:
                    update = transaction.update_snapshot(snapshot_properties={"headrace.batch": str(batch)})
                    with update.overwrite() if old else update.fast_append() as snapshot:
                        for file in old:
                            snapshot.delete_data_file(file)
                        for file in written:
                            snapshot.append_data_file(file)
        except CommitFailedException:
            for file in written:
                table.io.delete(file.file_path)
            raise

    def _evolve(self, table: Any, transaction: Any, schema: Any) -> None:
        if plain_schema(table.schema().as_arrow()) != schema:
            with transaction.update_schema() as update:
                update.union_by_name(schema)

    def _opened(self, schema: Any) -> Any:
        found = self._found()
        table = found.load()
        if table is not None:
            return table
        place = found.location() if self._named is not None else f"file://{self._folder.location}"
        return found.create(schema, place, self._partition_by)

    def _found(self) -> CatalogTable:
        if self._named is not None:
            return self._named
        if self._local is None:
            self._folder.make("")
            self._local = local_table(self._folder.location)
        return self._local


def _has(table: Any, batch: LoadBatch) -> bool:
    last = table.properties.get(_PROPERTY + batch.load_id)
    return last is not None and int(last) >= batch.number


def without_retries(table: Any) -> Any:
    """pyiceberg repeats a refused commit by itself, and does not ask whether the batch came meanwhile. How
    often it takes from the table that it has in memory, which no commit writes."""
    table.metadata.properties["commit.retry.num-retries"] = "0"
    return table
