"""A batch's rows as Parquet files in a folder of its own, written by the executors.

Files are few and large: one for each task, or where the table is partitioned one for each partition's value,
for which rows are brought together first. Partition columns are in the folders' names, as Hive and Delta have
it; Iceberg wants them in the files too, so there the folders are named after copies of the columns.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

from headrace.spark.loads.folders import FileFact, TableFolder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COPY: Final = "_in_"
# How Hive writes a null in a folder's name.
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


class DataFile(NamedTuple):
    """A Parquet file of a batch; `partition` is what its folder's name says, with null as None."""

    path: str
    size_bytes: int
    modified_ms: int
    row_count: int
    partition: dict[str, str | None]
    bounds: Mapping[str, tuple[Any, Any]] = MappingProxyType({})
    """The least and the greatest of columns with whole numbers and times, as far as its footer says them."""


def stage(
    rows: "DataFrame",
    folder: TableFolder,
    path: str,
    *,
    partition_by: Sequence[str],
    keep_columns: bool,
    file_count: int | None,
) -> list[DataFile]:
    """Write all rows below a path and tell which files that made; none for no rows.

    `keep_columns` leaves the partition columns in the files. `file_count` is the most that an unpartitioned
    batch makes.
    """
    # Spark's own default, a 96-bit number, is what neither Delta nor Iceberg reads as a timestamp.
    rows.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    columns = list(partition_by)
    if columns:
        rows = rows.repartition(*columns)
        if keep_columns:
            rows = rows.withColumns({_COPY + name: rows[name] for name in columns})
            columns = [_COPY + name for name in columns]
    elif file_count is not None:
        rows = rows.coalesce(file_count)
    writer = rows.write.mode("overwrite")
    (writer.partitionBy(*columns) if columns else writer).parquet(f"{folder.uri}/{path}")
    found = [data_file(folder, each) for each in folder.files(path, ".parquet")]
    return [each for each in found if each.row_count]


def data_file(folder: TableFolder, fact: FileFact) -> DataFile:
    """With what the file's own footer says."""
    from pyarrow.parquet import read_metadata

    with folder.opened(fact.path) as file:
        footer = read_metadata(file)
    return DataFile(*fact, int(footer.num_rows), partition_of(fact.path), _bounds(footer))


def _bounds(footer: Any) -> dict[str, tuple[Any, Any]]:
    """Of columns with whole numbers and times, where every group of rows says its own."""
    found: dict[str, tuple[Any, Any]] = {}
    for number in range(footer.num_columns):
        name = footer.schema.column(number).path
        groups = [footer.row_group(each).column(number).statistics for each in range(footer.num_row_groups)]
        if "." in name or not groups or not all(each is not None and each.has_min_max for each in groups):
            continue
        least, greatest = min(each.min for each in groups), max(each.max for each in groups)
        if isinstance(least, int | datetime) and not isinstance(least, bool):
            found[name] = least, greatest
    return found


def partition_of(path: str) -> dict[str, str | None]:
    """What the names of a file's folders say, with null as None."""
    pairs = re.findall(r"(?:^|/)([^/=]+)=([^/]*)(?=/)", path)
    return {
        unquote(name).removeprefix(_COPY): None if value == _NULL else unquote(value) for name, value in pairs
    }
