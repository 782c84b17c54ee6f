"""What every table format must be able to do for a load, and the three that can."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from headrace.spark.loads.errors import LoadError as LoadError
from headrace.spark.loads.folders import TableFolder
from headrace.spark.loads.staging import DataFile
from headrace.spark.loads.stores import session_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from headrace.base.ids import TopicPartition
    from headrace.spark.history.held import Holdings
    from headrace.spark.loads.schema_changes import FormatRules
    from headrace.spark.loads.upserts import Upsert

KINDS: Final = ("parquet", "delta", "iceberg")
HISTORY_KINDS: Final = ("delta", "iceberg")
"""Whose commits can say which offsets a table holds."""
SMALL_FILES: Final = 64
"""How many of them are joined into large ones where nothing else is said and a run does not end."""


class LoadBatch(NamedTuple):
    """A batch by its name: the load's id, and the number that Spark gave it."""

    load_id: str
    number: int

    def __str__(self) -> str:
        return f"{self.load_id[:8]}-{self.number:08d}"


class LoadTable(Protocol):
    """A table that takes batches, each once."""

    keeps_partition_columns: bool
    """Whether the files have the columns that the table is partitioned by."""
    keeps_staged_files: bool
    """Whether files stay where they were staged when they become part of the table."""

    rules: "FormatRules"

    def staging_path(self, batch: LoadBatch, attempt: str) -> str:
        """Where an attempt's files are to be written, below the table's folder; it ends with the attempt."""
        ...

    def has(self, batch: LoadBatch) -> bool:
        """Whether the batch is in the table; what is left of adding it is finished first."""
        ...

    def layout(self, batch: Any) -> "TableLayout | None":
        """What the table is now, None where there is none yet. `batch` is the schema of the rows to come: of
        a folder that says nothing about its partition columns, they are what the rows have."""
        ...

    def add(
        self, batch: LoadBatch, files: Sequence[DataFile], schema: Any, held: "Holdings | None" = None
    ) -> None:
        """Make the files part of the table, and the batch known, in one step.

        `schema` is that of the files, which `fitted` has found to be the table's with what is new. `held` is
        what the table holds of the batch's partitions then, where it is a history (`headrace.spark.history`).
        """
        ...

    def holdings(self, partitions: "Sequence[TopicPartition]") -> "Holdings":
        """What the table holds of these partitions."""
        ...

    def merge(self, batch: LoadBatch, upsert: "Upsert") -> None:
        """Put rows in the place of those with their key, delete others, and make the batch known, in one
        step."""
        ...


class TableLayout(NamedTuple):
    """A table's columns, as an Arrow schema, and those that it is partitioned by."""

    schema: Any
    partition_by: tuple[str, ...]


def fitted(table: LoadTable, place: str, batch: Any, partition_by: Sequence[str], mode: str) -> Any:
    """The schema that a batch's files must have; LoadError, with the difference, where the table does not
    take such rows."""
    from headrace.spark.loads.schema_changes import compare, new_table, plain_schema, told

    name = f"the {table.rules.name} table {place}"
    batch = plain_schema(batch)
    missing = [each for each in partition_by if each not in batch.names]
    if missing:
        raise LoadError(f"{name}: there is no column {missing[0]!r} to partition by")
    layout = table.layout(batch)
    if layout is None:
        comparison = new_table(batch, table.rules)
        refused = comparison.refused("evolve")
    else:
        if list(layout.partition_by) != list(partition_by):
            raise LoadError(
                f"{name} is partitioned by {', '.join(layout.partition_by) or 'nothing'}, not by "
                f"{', '.join(partition_by) or 'nothing'}: ask for the same, or load into another folder"
            )
        comparison = compare(plain_schema(layout.schema), batch, table.rules)
        refused = comparison.refused(mode)
    if refused:
        hint = "cast or select in the query what fits, or load into another folder"
        if mode == "strict" and not comparison.refused("evolve"):
            hint += "; with `schema: evolve` the table would take them"
        raise LoadError(f"{name} does not take these rows (schema: {mode}): {told(refused)}. To do: {hint}")
    return comparison.schema


def table_at(
    spark: "SparkSession", kind: str, place: str, partition_by: Sequence[str]
) -> tuple[TableFolder, LoadTable]:
    """The table in a folder, or of Iceberg by its name in a catalogue; it need not exist yet."""
    from headrace.spark.loads.iceberg_catalog import is_in_catalog, named_table

    if not is_in_catalog(place):
        folder = TableFolder(spark, place)
        return folder, open_table(kind, folder, partition_by)
    if kind != "iceberg":
        raise LoadError(f"{place}: only tables of Iceberg are in a catalogue, not of {kind}")
    from headrace.spark.loads.iceberg_table import IcebergLoadTable

    table = named_table(place, session_settings(spark))
    folder = TableFolder(spark, table.location())
    return folder, IcebergLoadTable(folder, partition_by, table)


def open_table(kind: str, folder: TableFolder, partition_by: Sequence[str]) -> LoadTable:
    """The table in a folder, which need not exist yet. LoadError for a kind that there is not."""
    if kind == "parquet":
        from headrace.spark.loads.parquet_table import ParquetTable

        return ParquetTable(folder, partition_by)
    if kind == "delta":
        from headrace.spark.loads.delta_table import DeltaLoadTable

        return DeltaLoadTable(folder, partition_by)
    if kind == "iceberg":
        from headrace.spark.loads.iceberg_table import IcebergLoadTable

        return IcebergLoadTable(folder, partition_by)
    raise LoadError(f"there are no tables of kind {kind!r}: choose {', '.join(KINDS)}")


def arrow_schema(schema: "StructType") -> Any:
    """A batch's schema for Arrow, with timestamps in UTC. LoadError for a type that Arrow has not."""
    from pyspark.errors import PySparkException

    from headrace.spark import abilities

    try:
        return abilities.arrow_schema(schema)
    except PySparkException as error:
        raise LoadError(f"a column has a type that tables do not have, cast it: {error}") from error


def spark_schema(schema: Any) -> "StructType":
    """An Arrow schema for Spark."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=True)
