"""Batches into tables: each once, however often Spark hands them over and wherever the last attempt ended."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

from headrace.spark.loads import batches
from headrace.spark.loads.batches import BatchWriter, TableTarget
from headrace.spark.loads.folders import TableFolder
from headrace.spark.loads.staging import DataFile, stage
from headrace.spark.loads.tables import LoadError, open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KINDS = ["parquet", "delta", "iceberg"]
Rows = Callable[[int, int], "DataFrame"]


@pytest.fixture
def rows(spark: "SparkSession") -> Rows:
    """Numbers as rows of four tasks, with all kinds of values that a feed has."""

    def make(first: int, last: int) -> "DataFrame":
        return spark.range(first, last, 1, 4).selectExpr(
            "id",
            "cast(cast(id AS string) AS binary) AS value",
            "timestamp_seconds(1700000000 + id * 3600) AS timestamp",
            "if(id % 7 = 0, NULL, concat('day ', id % 3)) AS day",
            "array(named_struct('key', 'h', 'value', cast('x' AS binary))) AS headers",
        )

    return make


def read_back(kind: str, path: Path, columns: Any = None) -> list[dict[str, Any]]:
    """All rows by a library that is not Spark, in order."""
    if kind == "delta":
        table = DeltaTable(str(path)).to_pyarrow_table()
    elif kind == "iceberg":
        catalog = SqlCatalog("headrace", uri=f"sqlite:///{path}/catalog.db")
        table = catalog.load_table("headrace.data").scan().to_arrow()
    else:
        table = ds.dataset(path, columns, format="parquet", partitioning="hive").to_table()
    return sorted(table.to_pylist(), key=lambda row: int(row["id"]))


@pytest.mark.parametrize(
    ("kind", "partition_by"), [*((kind, ("day",)) for kind in KINDS), ("parquet", ())], ids=str
)
def test_batches_come_once(kind: str, partition_by: tuple[str, ...], rows: Rows, tmp_path: Path) -> None:
    target = TableTarget(kind, str(tmp_path / "table"), partition_by, file_count=1)
    first = BatchWriter(target, load_id="a" * 32)
    assert first.write(rows(0, 50), 0).rows == 50
    assert not first.write(rows(0, 50), 0).is_new
    # Another run, and another load into the same table, whose batches count by themselves.
    again = BatchWriter(target, load_id="a" * 32)
    assert not again.write(rows(0, 50), 0).is_new
    loaded = again.write(rows(50, 80), 1)
    assert (loaded.rows, loaded.files) == (30, 4 if partition_by else 1)
    assert again.write(rows(80, 80), 2).rows == 0
    assert BatchWriter(target, load_id="b" * 32).write(rows(80, 90), 0).is_new

    found = read_back(kind, tmp_path / "table")
    assert [row["id"] for row in found] == list(range(90))
    assert {row["day"] for row in found} == {None, "day 0", "day 1", "day 2"}
    assert found[9]["value"] == b"9"
    assert found[9]["timestamp"].timestamp() == 1_700_000_000 + 9 * 3600
    assert found[9]["headers"] == [{"key": "h", "value": b"x"}]


@pytest.mark.parametrize("kind", KINDS)
def test_an_attempt_that_was_not_decided_leaves_nothing_to_see(
    kind: str, rows: Rows, spark: "SparkSession", tmp_path: Path
) -> None:
    path = tmp_path / "table"
    writer = BatchWriter(TableTarget(kind, str(path)), load_id="a" * 32)
    writer.write(rows(0, 10), 0)
    folder = TableFolder(spark, str(path))
    table = open_table(kind, folder, ())
    batch = writer.write(rows(0, 10), 0).batch._replace(number=1)
    dead = path / table.staging_path(batch, "dead")
    rows(10, 20).write.parquet(str(dead))
    assert [row["id"] for row in read_back(kind, path)] == list(range(10))
    assert writer.write(rows(10, 20), 1).is_new
    assert [row["id"] for row in read_back(kind, path)] == list(range(20))
    assert not dead.exists()


@pytest.mark.parametrize("kind", KINDS)
def test_a_driver_that_was_thought_dead_adds_nothing(
    kind: str, rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = TableTarget(kind, str(tmp_path / "table"))

    def overtaken(*arguments: Any, **options: Any) -> list[DataFile]:
        monkeypatch.undo()
        assert BatchWriter(target, load_id="a" * 32).write(rows(0, 10), 0).is_new
        return stage(*arguments, **options)

    monkeypatch.setattr(batches, "stage", overtaken)
    assert not BatchWriter(target, load_id="a" * 32).write(rows(0, 10), 0).is_new
    assert [row["id"] for row in read_back(kind, tmp_path / "table")] == list(range(10))


def test_parquet_finishes_what_a_manifest_decided(
    rows: Rows, spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "table"
    renamed: list[str] = []
    rename = TableFolder.rename

    def dies(self: TableFolder, source: str, target: str) -> None:
        if len(renamed) == 2:
            raise RuntimeError("killed between two renames")
        renamed.append(target)
        rename(self, source, target)

    writer = BatchWriter(TableTarget("parquet", str(path)), load_id="a" * 32)
    monkeypatch.setattr(TableFolder, "rename", dies)
    with pytest.raises(RuntimeError):
        writer.write(rows(0, 40), 0)
    assert 0 < len(read_back("parquet", path)) < 40
    monkeypatch.undo()
    assert not writer.write(rows(0, 40), 0).is_new
    assert [row["id"] for row in read_back("parquet", path)] == list(range(40))


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_another_partitioning_is_refused(kind: str, rows: Rows, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    BatchWriter(TableTarget(kind, path), load_id="a" * 32).write(rows(0, 10), 0)
    with pytest.raises(LoadError, match="ask for the same, or load into another folder"):
        BatchWriter(TableTarget(kind, path, ("day",)), load_id="a" * 32).write(rows(0, 10), 1)


def test_small_files_are_joined(rows: Rows, tmp_path: Path) -> None:
    path = tmp_path / "table"
    writer = BatchWriter(TableTarget("delta", str(path), file_count=1, compact=2), load_id="a" * 32)
    for number in range(3):
        writer(rows(number, number + 1), number)
    writer.close()
    assert len(DeltaTable(str(path)).file_uris()) == 1
    assert [row["id"] for row in read_back("delta", path)] == [0, 1, 2]


def test_a_kind_that_there_is_not(rows: Rows, tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="choose parquet, delta, iceberg"):
        BatchWriter(TableTarget("orc", str(tmp_path)), load_id="a").write(rows(0, 1), 0)


@pytest.mark.parametrize("kind", KINDS)
def test_columns_that_come_later(kind: str, rows: Rows, spark: "SparkSession", tmp_path: Path) -> None:
    """On Spark: what is new is added, what fits is cast, what is missing is null; all else is refused."""
    path = tmp_path / "table"
    target = TableTarget(kind, str(path))
    BatchWriter(target, load_id="a" * 32).write(rows(0, 2), 0)
    more = rows(2, 3).selectExpr(
        "cast(id AS int) AS ID",
        "value",
        "array(named_struct('value', cast('y' AS binary), 'key', 'g', 'more', 1)) AS headers",
        "'new' AS note",
    )
    with pytest.raises(LoadError, match=r"schema: strict.*column headers\.element\.more is new \(int\)"):
        BatchWriter(TableTarget(kind, str(path), schema="strict"), load_id="a" * 32).write(more, 1)
    writer = BatchWriter(target, load_id="a" * 32)
    assert writer.write(more, 1).rows == 1
    with pytest.raises(LoadError, match="column id is string, in the table bigint"):
        writer.write(more.selectExpr("'3' AS id"), 2)
    columns = pq.read_schema(path / "_common_metadata") if kind == "parquet" else None
    *_, before, found = read_back(kind, path, columns)
    assert (before["id"], before["note"], found["id"], found["note"]) == (1, None, 2, "new")
    assert found["headers"] == [{"key": "g", "value": b"y", "more": 1}]
    assert (found["day"], found["timestamp"]) == (None, None)
    if kind == "parquet":  # Spark itself finds the columns of all files
        assert {each.note for each in spark.read.parquet(str(path)).collect()} == {None, "new"}
