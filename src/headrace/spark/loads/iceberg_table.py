"""An Iceberg table, through the `pyiceberg` library: no jar.

Iceberg tables are found through a catalogue: here a small SQLite file inside the folder, `catalog.db`, with
the table `headrace.data`. pyiceberg opens it as `SqlCatalog("headrace", uri="sqlite:///FOLDER/catalog.db")`,
and what is in the folder can be registered with any other catalogue by its newest metadata file.

A batch is one commit: its files are added as they are, and a table property says the last batch of the load.
The property is in the table's metadata, so that it outlives the snapshots, which expire.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from headrace.spark.loads.folders import Folder
from headrace.spark.loads.staging import DataFile
from headrace.spark.loads.tables import LoadBatch, LoadError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

IDENTIFIER: Final = "headrace.data"
_PROPERTY: Final = "headrace.load."


class IcebergLoadTable:
    """See above."""

    keeps_partition_columns = True
    keeps_staged_files = True

    def __init__(self, folder: Folder, partition_by: Sequence[str]) -> None:
        if not folder.is_local:
            raise LoadError(
                f"{folder.uri}: an Iceberg table's folder has its catalogue in it and must be on a local disk"
            )
        self._folder = folder
        self._partition_by = list(partition_by)

    def staging_path(self, batch: LoadBatch, attempt: str) -> str:
        return f"data/batch-{batch}-{attempt}"

    def has(self, batch: LoadBatch) -> bool:
        catalog = iceberg_catalog(self._folder)
        if not catalog.table_exists(IDENTIFIER):
            return False
        last = catalog.load_table(IDENTIFIER).properties.get(_PROPERTY + batch.load_id)
        return last is not None and int(last) >= batch.number

    def add(self, batch: LoadBatch, files: Sequence[DataFile], schema: "StructType") -> None:
        table = self._opened(schema)
        paths = [f"{self._folder.location}/{each.path}" for each in files]
        with table.transaction() as transaction:
            transaction.set_properties({_PROPERTY + batch.load_id: str(batch.number)})
            transaction.add_files(paths, snapshot_properties={"headrace.batch": str(batch)})

    def _opened(self, schema: "StructType") -> Any:
        from headrace.spark.loads.schemas import arrow_schema

        catalog = iceberg_catalog(self._folder)
        if catalog.table_exists(IDENTIFIER):
            table = catalog.load_table(IDENTIFIER)
            found = [field.name for field in table.spec().fields]
            if found != self._partition_by:
                raise LoadError(
                    f"the Iceberg table in {self._folder.location} is partitioned by {found}, not by "
                    f"{self._partition_by}: ask for the same, or load into another folder"
                )
            return table
        catalog.create_namespace_if_not_exists(IDENTIFIER.partition(".")[0])
        place = f"file://{self._folder.location}"
        created = catalog.create_table_transaction(IDENTIFIER, arrow_schema(schema), place)
        with created as creation, creation.update_spec() as update:
            for name in self._partition_by:
                update.add_identity(name)
        return catalog.load_table(IDENTIFIER)


def iceberg_catalog(folder: Folder) -> Any:
    """The catalogue inside the folder; made where there is none."""
    from pyiceberg.catalog.sql import SqlCatalog

    folder.make("")
    place = folder.location
    return SqlCatalog("headrace", uri=f"sqlite:///{place}/catalog.db", warehouse=f"file://{place}")
