"""A batch's rows as Parquet files in a folder of its own, written by the executors.

Files are few and large: one for each task, or where the table is partitioned one for each partition's value,
for which rows are brought together first. Partition columns are in the folders' names, as Hive and Delta have
it; Iceberg wants them in the files too, so there the folders are named after copies of the columns.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

from headrace.spark.loads.folders import Folder

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


def stage(
    rows: "DataFrame",
    folder: Folder,
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
    found = [
        DataFile(
            each.path, each.size_bytes, each.modified_ms, _row_count(folder, each.path), _partition(each.path)
        )
        for each in folder.files(path, ".parquet")
    ]
    return [each for each in found if each.row_count]


def _row_count(folder: Folder, path: str) -> int:
    """From the file's own footer."""
    from pyarrow.fs import FileSystem
    from pyarrow.parquet import read_metadata

    system, base = FileSystem.from_uri(
        folder.uri.replace("file:/", "file:///", 1) if folder.is_local else folder.uri
    )
    with system.open_input_file(f"{base}/{path}") as file:
        return int(read_metadata(file).num_rows)


def _partition(path: str) -> dict[str, str | None]:
    pairs = re.findall(r"(?:^|/)([^/=]+)=([^/]*)(?=/)", path)
    return {
        unquote(name).removeprefix(_COPY): None if value == _NULL else unquote(value) for name, value in pairs
    }
