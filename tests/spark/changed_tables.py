"""Thirty changes of a batch's schema, and the tables that they are tried on.

Without Spark: files are written by Arrow as the executors would, which takes a fraction of a second. Tables
are read by their format's own library, and their data files as they lie there by DuckDB; `test_loads_schemas`
and `tests.spark.versions.lakes` have Spark read them too.
"""

from collections.abc import Sequence
from datetime import UTC as IN_UTC
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

from headrace.spark.loads.staging import DataFile, partition_of
from headrace.spark.loads.tables import LoadBatch, LoadTable, fitted, open_table
from tests.spark.local_folder import LocalFolder

PARQUET, DELTA, ICEBERG = KINDS = ("parquet", "delta", "iceberg")
ALL: frozenset[str] = frozenset(KINDS)
NONE: frozenset[str] = frozenset()
IN_ICEBERG = frozenset({ICEBERG})
UTC = pa.timestamp("us", "UTC")


class Case(NamedTuple):
    """A first batch and a second one; which formats take it with evolve, and with strict."""

    name: str
    before: dict[str, Any]
    after: dict[str, Any]
    first: dict[str, Any]
    second: dict[str, Any]
    evolve: frozenset[str] = ALL
    strict: frozenset[str] = NONE
    said: str = ""
    """What a refusal must name."""
    partition_by: tuple[str, ...] = ()
    then_by: tuple[str, ...] | None = None
    kept: dict[str, Any] | None = None
    """What the second row is in the table, where that is not what was given."""


ROW = {"id": pa.int64(), "a": pa.string()}
FIRST = {"id": 1, "a": "x"}


def one(before: Any, after: Any, first: Any, second: Any, name: str, **more: Any) -> Case:
    """A change of the type of one column."""
    return Case(
        name,
        {"id": pa.int64(), "c": before},
        {"id": pa.int64(), "c": after},
        {"id": 1, "c": first},
        {"id": 2, "c": second},
        **{"said": "column c", **more},
    )


STRUCT = pa.struct([("x", pa.int32()), ("y", pa.string())])
CASES = (
    Case("the same", ROW, ROW, FIRST, {"id": 2, "a": "y"}, strict=ALL),
    Case("a column more", ROW, {**ROW, "b": pa.int32()}, FIRST, {"id": 2, "a": "y", "b": 3}, said="column b"),
    Case(
        "a column more in the middle",
        ROW,
        {"id": pa.int64(), "b": STRUCT, "a": pa.string()},
        FIRST,
        {"id": 2, "a": "y", "b": {"x": 1, "y": "z"}},
        said="column b is new (struct<x: int, y: string>)",
    ),
    Case("a column less", ROW, {"id": pa.int64()}, FIRST, {"id": 2}, said="column a (string) is missing"),
    Case(
        "another name",
        ROW,
        {"id": pa.int64(), "b": pa.string()},
        FIRST,
        {"id": 2, "b": "y"},
        said="column b is new",
    ),
    Case(
        "another order",
        ROW,
        {"a": pa.string(), "id": pa.int64()},
        FIRST,
        {"id": 2, "a": "y"},
        said="another order: a, id, not id, a",
    ),
    Case(
        "another case",
        ROW,
        {"ID": pa.int64(), "a": pa.string()},
        FIRST,
        {"ID": 2, "a": "y"},
        said="written ID",
        kept={"id": 2, "a": "y"},
    ),
    Case(
        "two columns that differ by case",
        ROW,
        {**ROW, "A": pa.string()},
        FIRST,
        {"id": 2, "a": "y", "A": "z"},
        evolve=NONE,
        said="two columns a and A",
    ),
    one(pa.int32(), pa.int64(), 1, 2**40, "int to bigint", evolve=IN_ICEBERG),
    one(pa.int64(), pa.int32(), 2**40, 2, "bigint from int"),
    one(pa.int16(), pa.int32(), 1, 2**20, "smallint to int", evolve=IN_ICEBERG, strict=IN_ICEBERG),
    one(pa.int16(), pa.int16(), 1, 2, "smallint as before", strict=ALL),
    one(pa.float32(), pa.float64(), 0.5, 1e300, "float to double", evolve=IN_ICEBERG),
    one(pa.float64(), pa.float32(), 1e300, 0.5, "double from float"),
    one(pa.float64(), pa.int32(), 1e300, 7, "double from int", kept={"id": 2, "c": 7.0}),
    one(pa.float64(), pa.int64(), 0.5, 2**60 + 1, "double from bigint", evolve=NONE),
    one(
        pa.decimal128(10, 2),
        pa.decimal128(12, 2),
        Decimal("1.25"),
        Decimal("1234567890.25"),
        "decimal with more digits",
        evolve=IN_ICEBERG,
    ),
    one(
        pa.decimal128(12, 2),
        pa.decimal128(10, 2),
        Decimal("1234567890.25"),
        Decimal("1.25"),
        "decimal with fewer digits",
    ),
    one(
        pa.decimal128(10, 2),
        pa.decimal128(10, 4),
        Decimal("1.25"),
        Decimal("1.2525"),
        "decimal of another scale",
        evolve=NONE,
    ),
    one(
        pa.int64(), pa.string(), 1, "2", "bigint to string", evolve=NONE, said="c is string, in the table big"
    ),
    one(pa.string(), pa.binary(), "1", b"2", "string to binary", evolve=NONE),
    one(pa.date32(), UTC, date(2026, 1, 1), datetime(2026, 1, 1), "date to timestamp", evolve=NONE),
    one(UTC, pa.timestamp("us"), datetime(2026, 1, 1), datetime(2026, 1, 1), "without a zone", evolve=NONE),
    one(pa.string(), pa.null(), "x", None, "only nulls", said="column c is void"),
    Case(
        "a new column of only nulls",
        ROW,
        {**ROW, "n": pa.null()},
        FIRST,
        {"id": 2, "a": "y", "n": None},
        evolve=NONE,
        said="column n has no type",
    ),
    one(
        STRUCT,
        pa.struct([("x", pa.int32()), ("y", pa.string()), ("z", pa.bool_())]),
        {"x": 1, "y": "1"},
        {"x": 2, "y": "2", "z": True},
        "a field more",
        said="column c.z is new (boolean)",
    ),
    one(
        STRUCT,
        pa.struct([("x", pa.int32())]),
        {"x": 1, "y": "1"},
        {"x": 2},
        "a field less",
        said="c.y (string)",
    ),
    one(
        STRUCT,
        pa.struct([("y", pa.string()), ("x", pa.int32())]),
        {"x": 1, "y": "1"},
        {"x": 2, "y": "2"},
        "fields in another order",
        said="another order in c: y, x, not x, y",
    ),
    one(
        STRUCT,
        pa.struct([("x", pa.string()), ("y", pa.string())]),
        {"x": 1, "y": "1"},
        {"x": "2", "y": "2"},
        "a field of another type",
        evolve=NONE,
        said="column c.x is string, in the table int",
    ),
    one(STRUCT, pa.string(), {"x": 1, "y": "1"}, "2", "struct to string", evolve=NONE),
    one(
        pa.list_(pa.field("element", STRUCT)),
        pa.list_(pa.field("element", pa.struct([*STRUCT, ("z", pa.int64())]))),
        [{"x": 1, "y": "1"}],
        [{"x": 2, "y": "2", "z": 3}],
        "a field more in a list",
        said="column c.element.z",
    ),
    one(
        pa.list_(pa.int32()),
        pa.list_(pa.int64()),
        [1],
        [2**40],
        "wider elements",
        evolve=IN_ICEBERG,
        said="column c.element",
    ),
    one(
        pa.map_(pa.string(), pa.int32()),
        pa.map_(pa.string(), pa.int64()),
        [("k", 1)],
        [("k", 2**40)],
        "wider values of a map",
        evolve=IN_ICEBERG,
        said="column c.value",
    ),
    one(
        pa.map_(pa.int32(), pa.int32()),
        pa.map_(pa.int64(), pa.int32()),
        [(1, 1)],
        [(2**40, 1)],
        "wider keys of a map",
        evolve=NONE,
        said="column c.key",
    ),
    Case(
        "a column more beside partitions",
        ROW,
        {**ROW, "b": pa.int32()},
        FIRST,
        {"id": 2, "a": "y", "b": 3},
        said="column b",
        partition_by=("a",),
    ),
    Case(
        "a partition column of another type",
        ROW,
        {"id": pa.int64(), "a": pa.int64()},
        FIRST,
        {"id": 2, "a": 2},
        evolve=NONE,
        said="column a is bigint, in the table string",
        partition_by=("a",),
    ),
    Case(
        "no partition column",
        ROW,
        {"id": pa.int64()},
        FIRST,
        {"id": 2},
        evolve=NONE,
        said="no column 'a'",
        partition_by=("a",),
    ),
    Case(
        "other partitions",
        ROW,
        ROW,
        FIRST,
        {"id": 2, "a": "y"},
        evolve=NONE,
        said="partitioned by nothing, not by a",
        then_by=("a",),
    ),
)


class Load:
    """Batches into a table, as `BatchWriter` does it with Spark."""

    def __init__(self, kind: str, path: Path, mode: str = "evolve") -> None:
        self.kind, self.path, self.mode = kind, path, mode
        self.folder = LocalFolder(path)
        self.folder.make("")

    def table(self, partition_by: Sequence[str]) -> LoadTable:
        return open_table(self.kind, self.folder, partition_by)

    def add(self, number: int, rows: pa.Table, partition_by: tuple[str, ...] = ()) -> None:
        table, batch = self.table(partition_by), LoadBatch("a" * 32, number)
        assert not table.has(batch)
        wanted = fitted(table, str(self.path), rows.schema, partition_by, self.mode)
        path = table.staging_path(batch, "0")
        rows = with_schema(rows, wanted)
        keeps = table.keeps_partition_columns
        for at, row in enumerate(rows.to_pylist()):
            place = "/".join(
                [path, *(f"{'_in_' if keeps else ''}{each}={row[each]}" for each in partition_by)]
            )
            self.folder.make(place)
            own = rows.slice(at, 1)
            pq.write_table(
                own if keeps else own.drop_columns(list(partition_by)), f"{self.path}/{place}/{at}.parquet"
            )
        files = [
            DataFile(each.path, each.size_bytes, each.modified_ms, 1, partition_of(each.path))
            for each in self.folder.files(path, ".parquet")
        ]
        table.add(batch, files, wanted)
        assert self.table(partition_by).has(batch)

    def read(self) -> pa.Table:
        """By the format's own library."""
        if self.kind == DELTA:
            return DeltaTable(str(self.path)).to_pyarrow_table()
        if self.kind == ICEBERG:
            return self.iceberg().scan().to_arrow()
        return ds.dataset(self.path, schema=self._parquet_schema(), partitioning="hive").to_table()

    def _parquet_schema(self) -> pa.Schema:
        columns = pq.read_schema(self.path / "_common_metadata").remove_metadata()
        for each in ds.dataset(self.path, partitioning="hive").schema:
            columns = columns if each.name in columns.names else columns.append(each)
        return columns

    def data_files(self) -> list[str]:
        """Those that the table has now, as its log or its manifests say."""
        if self.kind == DELTA:
            return DeltaTable(str(self.path)).file_uris()
        if self.kind == ICEBERG:
            return [each.file.file_path for each in self.iceberg().scan().plan_files()]
        return [str(each) for each in self.path.rglob("*.parquet") if "_headrace" not in each.parts]

    def read_by_duckdb(self) -> pa.Table:
        """From the data files themselves, which DuckDB puts together by the names of their columns."""
        # Iceberg's files have all columns, and folders that are named after copies of some.
        in_folders = self.kind != ICEBERG
        with duckdb.connect() as connection:
            found = connection.read_parquet(
                self.data_files(), union_by_name=True, hive_partitioning=in_folders
            )
            return found.to_arrow_table()

    def iceberg(self) -> Any:
        catalog = SqlCatalog("headrace", uri=f"sqlite:///{self.path}/catalog.db")
        return catalog.load_table("headrace.data")


def with_schema(rows: pa.Table, wanted: pa.Schema) -> pa.Table:
    """As Spark's `DataFrame.to` does it: by name without regard to case, with null for what is not there."""
    by_name = {name.lower(): name for name in rows.column_names}
    cast = [
        {each.name: row.get(by_name.get(each.name.lower(), "")) for each in wanted}
        for row in rows.to_pylist()
    ]
    return pa.Table.from_pylist(cast, wanted)


def table_of(schema: dict[str, Any], row: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist([row], pa.schema(list(schema.items())))


def as_found(table: pa.Table) -> list[dict[str, Any]]:
    """What a reader has found, in order of the ids."""
    return sorted(map(dict, table.to_pylist()), key=lambda row: int(row["id"]))


def as_kinds(rows: Sequence[dict[str, Any]], schema: pa.Schema) -> list[dict[str, Any]]:
    """Rows as they come back from a table with these columns."""
    return [{each.name: with_nulls(row.get(each.name), each.type) for each in schema} for row in rows]


def with_nulls(given: Any, kind: Any) -> Any:
    """A value with null for the fields that it lacks, as it comes back from a table."""
    if given is not None and pa.types.is_struct(kind):
        return {**given, **{each.name: with_nulls(given.get(each.name), each.type) for each in kind}}
    if given is not None and pa.types.is_list(kind):
        return [with_nulls(each, kind.value_type) for each in given]
    if isinstance(given, datetime) and given.tzinfo is not None:
        return given.astimezone(IN_UTC).replace(tzinfo=None)
    return given


def changed_table(case: Case, kind: str, path: Path) -> tuple[Load, list[dict[str, Any]]]:
    """A table that a change came to, as far as its kind takes it, and its rows."""
    load = Load(kind, path)
    load.add(0, table_of(case.before, case.first), case.partition_by)
    if kind not in case.evolve:
        return load, [case.first]
    load.add(1, table_of(case.after, case.second), case.then_by or case.partition_by)
    return load, [case.first, case.kept or case.second]
