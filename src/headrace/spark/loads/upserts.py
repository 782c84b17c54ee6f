"""Rows that take the place of others: a table with one row for each key, kept by merging batches into it.

A batch may change a key several times. Only its last change counts, by the order in which rows came: records
of a key lie in one partition of their feed, whose tasks are in order, so a later row has the greater number
as long as the query did not shuffle; and where it did, for an aggregation, it has one row for a key. A column
`tombstone` that is true means that the key's row is to go.

The batch's changes are staged as files by the executors. The driver reads them and has the table's library
merge them in one commit that also keeps the batch's number, so a repeated batch changes nothing: what is
merged passes through the driver, and files with touched rows are written anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.spark.loads.folders import TableFolder
from headrace.spark.loads.staging import DataFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

TOMBSTONE: Final = "tombstone"
STAGED_UPSERTS: Final = "_headrace/upserts"
_NUMBER: Final = "_headrace_number"


@dataclass(frozen=True, slots=True)
class Upsert:
    """A batch's changes as Arrow tables: rows to be there, and keys (in whole rows) to be gone."""

    rows: Any
    deletes: Any
    key: tuple[str, ...]

    @property
    def schema(self) -> Any:
        return self.rows.schema

    def keys(self) -> Any:
        """Of both, the key's columns only."""
        import pyarrow as pa

        return pa.concat_tables([each.select(list(self.key)) for each in (self.rows, self.deletes)])

    def changes(self) -> Any:
        """Both, with a column that says which."""
        import pyarrow as pa

        marks = pa.array([False] * self.rows.num_rows + [True] * self.deletes.num_rows, pa.bool_())
        both = pa.concat_tables([self.rows, self.deletes])
        return both.append_column(pa.field(TOMBSTONE, pa.bool_()), marks)


def without_mark(rows: "DataFrame") -> "DataFrame":
    return rows.drop(TOMBSTONE)


def marked(rows: "DataFrame", schema: "StructType") -> "DataFrame":
    """Rows as the table has them, each with a mark and a number that rises in the order of its task."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import BooleanType, LongType, StructType

    mark = F.coalesce(F.col(TOMBSTONE), F.lit(False)) if TOMBSTONE in rows.columns else F.lit(False)
    numbered = rows.withColumns({TOMBSTONE: mark, _NUMBER: F.monotonically_increasing_id()})
    return numbered.to(StructType([*schema]).add(TOMBSTONE, BooleanType()).add(_NUMBER, LongType()))


def last_changes(rows: "DataFrame", key: Sequence[str]) -> "DataFrame":
    """The last row of each key."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.window import Window

    newest_first = Window.partitionBy(*key).orderBy(F.col(_NUMBER).desc())
    # Rows without a key are not each other's: they are all told, or passed over, where they are read.
    has_key = F.lit(True)
    for each in key:
        has_key = has_key & F.col(each).isNotNull()
    place = F.row_number().over(newest_first)
    return (
        rows.withColumn("_headrace_place", place)
        .where((F.col("_headrace_place") == 1) | ~has_key)
        .drop("_headrace_place", _NUMBER)
    )


def read_upsert(folder: TableFolder, files: Sequence[DataFile], schema: Any, key: tuple[str, ...]) -> Upsert:
    """The staged changes. LoadError for a row without a key; a tombstone without one deletes nothing."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    from headrace.spark.loads.tables import LoadError

    found = []
    for each in files:
        with folder.opened(each.path) as file:
            found.append(pq.read_table(file))
    changes = pa.concat_tables(found)
    is_delete = changes.column(TOMBSTONE)
    rows = changes.filter(pc.invert(is_delete)).select(schema.names).cast(schema)
    deletes = changes.filter(is_delete).select(schema.names).cast(schema)
    for name in key:
        if lacking := rows.column(name).null_count:
            raise LoadError(
                f"{lacking} rows have no {name}, which is the table's key: leave them out with WHERE {name} "
                "IS NOT NULL"
            )
        deletes = deletes.filter(pc.is_valid(deletes.column(name)))
    return Upsert(rows, deletes, key)
