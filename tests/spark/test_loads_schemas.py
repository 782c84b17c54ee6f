"""Thirty changes of a batch's schema, by format and mode: taken whole or refused by name, the table readable.

Tables are read by the formats' own libraries and by DuckDB, and those of Parquet by Spark. Spark with the
jars of Delta and Iceberg is a slow form: `pytest -m slow tests/spark/test_versions.py`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

from headrace.spark.loads.schema_changes import ChangeKind, FormatRules, compare, fits
from headrace.spark.loads.tables import LoadError
from tests.spark.changed_tables import (
    CASES,
    DELTA,
    FIRST,
    ICEBERG,
    KINDS,
    PARQUET,
    ROW,
    Case,
    Load,
    as_found,
    as_kinds,
    changed_table,
    table_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    """The table has exactly these rows and columns, by its own library and in the files that lie there."""
    names = {name for row in rows for name in row}
    for found in (load.read(), load.read_by_duckdb()):
        assert as_kinds(as_found(found), found.schema) == as_kinds(rows, found.schema)
        assert set(found.column_names) == names


def test_spark_reads_every_folder_of_parquet_that_has_changed(spark: "SparkSession", tmp_path: Path) -> None:
    """By itself, with nothing said about columns: `_common_metadata` has those of all files."""
    changed = [case for case in CASES if PARQUET in case.evolve and case.before != case.after]
    assert len(changed) > 12
    for number, case in enumerate(changed):
        load, rows = changed_table(case, PARQUET, tmp_path / f"{number}")
        found = spark.read.parquet(str(load.path)).toArrow()
        assert as_kinds(as_found(found), found.schema) == as_kinds(rows, found.schema), case.name
        assert set(found.column_names) == {name for row in rows for name in row}, case.name


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
