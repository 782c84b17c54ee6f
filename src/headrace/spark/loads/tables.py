"""What every table format must be able to do for a load, and the three that can."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from headrace.spark.loads.folders import Folder
from headrace.spark.loads.staging import DataFile

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

KINDS: Final = ("parquet", "delta", "iceberg")


class LoadError(ValueError):
    """A table that cannot be loaded into as it was asked for. The text is for a person."""


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

    def staging_path(self, batch: LoadBatch, attempt: str) -> str:
        """Where an attempt's files are to be written, below the table's folder; it ends with the attempt."""
        ...

    def has(self, batch: LoadBatch) -> bool:
        """Whether the batch is in the table; what is left of adding it is finished first."""
        ...

    def add(self, batch: LoadBatch, files: Sequence[DataFile], schema: "StructType") -> None:
        """Make the files part of the table, and the batch known, in one step."""
        ...


def open_table(kind: str, folder: Folder, partition_by: Sequence[str]) -> LoadTable:
    """The table in a folder, which need not exist yet. LoadError for a kind that there is not."""
    if kind == "parquet":
        from headrace.spark.loads.parquet_table import ParquetTable

        return ParquetTable(folder)
    if kind == "delta":
        from headrace.spark.loads.delta_table import DeltaLoadTable

        return DeltaLoadTable(folder, partition_by)
    if kind == "iceberg":
        from headrace.spark.loads.iceberg_table import IcebergLoadTable

        return IcebergLoadTable(folder, partition_by)
    raise LoadError(f"there are no tables of kind {kind!r}: choose {', '.join(KINDS)}")
