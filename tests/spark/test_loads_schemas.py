"""Thirty changes of a batch's schema, by format and mode: taken whole or refused by name, the table readable.

Without Spark: files are written by Arrow as the executors would, and read back by the formats' own libraries
and by DuckDB. `test_loads_batches` has some of them on Spark.
"""

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

from headrace.spark.loads.schema_changes import ChangeKind, FormatRules, compare, fits
from headrace.spark.loads.staging import DataFile, partition_of
from headrace.spark.loads.tables import LoadBatch, LoadError, LoadTable, fitted, open_table
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
            catalog = SqlCatalog("headrace", uri=f"sqlite:///{self.path}/catalog.db")
            return catalog.load_table("headrace.data").scan().to_arrow()
        return ds.dataset(self.path, schema=self._parquet_schema(), partitioning="hive").to_table()

    def _parquet_schema(self) -> pa.Schema:
        columns = pq.read_schema(self.path / "_common_metadata").remove_metadata()
        for each in ds.dataset(self.path, partitioning="hive").schema:
            columns = columns if each.name in columns.names else columns.append(each)
        return columns

    def read_by_duckdb(self, rows: pa.Table) -> list[tuple[int]]:
        """The ids; of Delta and Iceberg from what their libraries handed over, of Parquet from the files."""
        if self.kind == PARQUET:
            files = [str(each) for each in self.path.rglob("*.parquet") if "_headrace" not in each.parts]
            found = duckdb.read_parquet(files, union_by_name=True)
        else:
            found = duckdb.from_arrow(rows)
        return sorted(found.project("id").fetchall())


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


def with_nulls(given: Any, kind: Any) -> Any:
    """A value with null for the fields that it lacks, as it comes back from a table."""
    if given is not None and pa.types.is_struct(kind):
        return {each.name: with_nulls(given.get(each.name), each.type) for each in kind}
    if given is not None and pa.types.is_list(kind):
        return [with_nulls(each, kind.value_type) for each in given]
    return given.replace(tzinfo=None) if isinstance(given, datetime) else given


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_a_change_is_taken_whole_or_refused_by_name(case: Case, kind: str, tmp_path: Path) -> None:
    """Strict before evolve, on one table: what is refused leaves it as it was."""
    load = Load(kind, tmp_path / "table")
    load.add(0, table_of(case.before, case.first), case.partition_by)
    rows = [case.first]
    for mode, taken in (("strict", case.strict), ("evolve", case.evolve)):
        load.mode = mode
        if kind in taken and len(rows) == 1:
            load.add(1, table_of(case.after, case.second), case.then_by or case.partition_by)
            rows.append(case.kept or case.second)
        elif kind not in taken:
            with pytest.raises(LoadError) as refused:
                load.add(1, table_of(case.after, case.second), case.then_by or case.partition_by)
            assert case.said in str(refused.value)
            assert ("`schema: evolve`" in str(refused.value)) == (mode == "strict" and kind in case.evolve)
        check(load, rows)
    # And it goes on: the columns of the first batch fit as before.
    load.add(2, table_of(case.before, {**case.first, "id": 3}), case.partition_by)
    assert sorted(load.read().column("id").to_pylist()) == [*(row["id"] for row in rows), 3]


def check(load: Load, rows: Sequence[dict[str, Any]]) -> None:
    """The table has exactly these rows, and the columns that they have."""
    found = load.read()
    kinds = {each.name: each.type for each in found.schema}
    back = sorted(found.to_pylist(), key=lambda row: int(row["id"]))
    as_read = [{name: with_nulls(row[name], kinds[name]) for name in kinds} for row in back]
    assert as_read == [{name: with_nulls(row.get(name), kinds[name]) for name in kinds} for row in rows]
    assert {name for row in rows for name in row} == set(kinds)
    assert load.read_by_duckdb(found) == [(row["id"],) for row in rows]


def test_there_are_thirty_changes_at_least() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 30


@pytest.mark.parametrize("kind", [DELTA, ICEBERG])
@pytest.mark.parametrize("mode", ["evolve", "strict"])
def test_not_null_of_a_table_that_others_made(kind: str, mode: str, tmp_path: Path) -> None:
    path = tmp_path / "table"
    load = Load(kind, path, mode)
    required = pa.schema([pa.field("id", pa.int64(), nullable=False), ("a", pa.string())])
    if kind == DELTA:
        DeltaTable.create(str(path), required)
    else:
        catalog = SqlCatalog("headrace", uri=f"sqlite:///{path}/catalog.db", warehouse=f"file://{path}")
        catalog.create_namespace("headrace")
        catalog.create_table("headrace.data", required, f"file://{path}")
    promised = pa.Table.from_pylist([FIRST], required)
    load.add(0, promised)
    with pytest.raises(LoadError, match="column id" if mode == "strict" else "NOT NULL"):
        load.add(1, table_of({"a": pa.string()}, {"a": "y"}))
    if mode == "strict":
        with pytest.raises(LoadError, match="column id may be null, and the table says NOT NULL"):
            load.add(1, table_of(ROW, {"id": 2, "a": "y"}))
    else:
        load.add(1, table_of(ROW, {"id": None, "a": "y"}))
        assert load.read().sort_by("a").to_pylist() == [FIRST, {"id": None, "a": "y"}]
        assert load.read().schema.field("id").nullable


def test_a_parquet_folder_of_others(tmp_path: Path) -> None:
    path = tmp_path / "table"
    (path / "day=1").mkdir(parents=True)
    pq.write_table(table_of(ROW, FIRST), path / "day=1" / "theirs.parquet")
    load = Load(PARQUET, path)
    rows = table_of({**ROW, "day": pa.int32(), "b": pa.int32()}, {"id": 2, "a": "y", "day": 2, "b": 3})
    with pytest.raises(LoadError, match="partitioned by day, not by nothing"):
        load.add(0, rows)
    load.add(0, rows, ("day",))
    with pytest.raises(LoadError, match="column a is bigint, in the table string"):
        load.add(
            1,
            table_of({"id": pa.int64(), "a": pa.int64(), "day": pa.int32()}, {"id": 3, "a": 3, "day": 1}),
            ("day",),
        )
    found = sorted(load.read().to_pylist(), key=lambda row: int(row["id"]))
    assert found == [{"id": 1, "a": "x", "b": None, "day": 1}, {"id": 2, "a": "y", "b": 3, "day": 2}]


def test_files_that_do_not_go_together(tmp_path: Path) -> None:
    load = Load(PARQUET, tmp_path / "table")
    pq.write_table(table_of(ROW, FIRST), load.path / "1.parquet")
    pq.write_table(table_of({"id": pa.string()}, {"id": "1"}), load.path / "2.parquet")
    with pytest.raises(LoadError, match=r"2\.parquet is another table's: column id is string"):
        load.add(0, table_of(ROW, FIRST))


@pytest.mark.parametrize("kind", KINDS)
def test_types_that_tables_do_not_have(kind: str, tmp_path: Path) -> None:
    for each in (pa.duration("us"), pa.null()):
        with pytest.raises(LoadError, match=r"column c\.x"):
            Load(kind, tmp_path / "table").add(
                0, table_of({"c": pa.struct([("x", each)])}, {"c": {"x": None}})
            )


def test_many_changes_are_told_in_one_line(tmp_path: Path) -> None:
    load = Load(DELTA, tmp_path / "table", "strict")
    load.add(0, table_of(ROW, FIRST))
    with pytest.raises(LoadError, match="and 2 more") as refused:
        load.add(1, table_of({**ROW, **{f"c{at}": pa.int32() for at in range(12)}}, FIRST))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("narrow", "wide", "is_lossless"),
    [
        (pa.int8(), pa.decimal128(3, 0), True),
        (pa.int64(), pa.decimal128(20, 2), False),
        (pa.int64(), pa.decimal128(21, 2), True),
        (pa.int32(), pa.float32(), False),
        (pa.string(), pa.binary(), False),
        (pa.bool_(), pa.int8(), False),
    ],
)
def test_what_fits(narrow: Any, wide: Any, is_lossless: bool) -> None:
    assert fits(narrow, wide) == is_lossless


def test_changes_have_kinds() -> None:
    before = pa.schema([("id", pa.int64()), ("gone", pa.string()), ("c", pa.int64())])
    after = pa.schema([("ID", pa.int32()), ("new", pa.string()), ("c", pa.string())])
    found = compare(before, after, FormatRules("Any"))
    assert [(each.kind, each.column) for each in found.changes] == [
        (ChangeKind.CASE, "id"),
        (ChangeKind.CAST, "id"),
        (ChangeKind.MISSING, "gone"),
        (ChangeKind.TYPE, "c"),
        (ChangeKind.ADDED, "new"),
    ]
    assert [each.kind for each in found.refused("evolve")] == [ChangeKind.TYPE]
    assert found.schema.names == ["id", "gone", "c", "new"]
