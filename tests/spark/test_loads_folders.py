"""A table's folder does the same by Hadoop's file system and, in tests without a session, by Python's own."""

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.spark import register
from headrace.spark.loads.errors import StoreError
from headrace.spark.loads.folders import TableFolder
from headrace.spark.loads.stores import session_settings
from headrace.spark.session import own_session
from tests.spark.histories import source_options
from tests.spark.local_folder import LocalFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("kind", ["hadoop", "hadoop without renames", "local"])
def test_a_folder(kind: str, spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = LocalFolder(tmp_path) if kind == "local" else TableFolder(spark, str(tmp_path))
    if kind == "hadoop without renames":
        monkeypatch.setattr("headrace.spark.loads.folders._RENAMES", ())
    assert (folder.location, folder.is_local) == (str(tmp_path), True)
    folder.make("a/b")
    folder.write_new("a/b/one.txt", "1")
    with pytest.raises(FileExistsError):
        folder.write_new("a/b/one.txt", "2")
    folder.replace("a/two.txt", b"2")
    folder.replace("a/two.txt", b"22")
    with folder.opened("a/two.txt") as file:
        assert file.read() == b"22"
    folder.rename("a/b/one.txt", "c/d/one.txt")
    assert (folder.read("c/d/one.txt"), folder.exists("a/b/one.txt")) == ("1", False)
    assert [each[:2] for each in folder.files("", ".txt")] == [("a/two.txt", 2), ("c/d/one.txt", 1)]
    assert (folder.children("a"), folder.children("none")) == (["b", "two.txt"], [])
    folder.delete("a")
    folder.delete("a")
    assert [name for name in folder.children("") if not name.startswith(".")] == ["c"]


def test_what_is_no_file_of_a_disk_is_read_through_hadoop(spark: "SparkSession", tmp_path: Path) -> None:
    rows = pa.table({"n": range(1000)})
    pq.write_table(rows, tmp_path / "a.parquet", row_group_size=100)
    with TableFolder(spark, str(tmp_path))._opened_by_hadoop("a.parquet") as file:
        assert pq.ParquetFile(file).read_row_group(7).column("n").to_pylist() == list(range(700, 800))
        assert pq.read_table(file) == rows


def test_a_copy_that_was_cut_off_is_finished(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store renames by a copy, after which the source goes."""
    monkeypatch.setattr("headrace.spark.loads.folders._RENAMES", ())
    folder = TableFolder(spark, str(tmp_path))
    for path in ("staged/one.txt", "one.txt"):
        folder.replace(path, b"1")
    folder.rename("staged/one.txt", "one.txt")
    assert (folder.read("one.txt"), folder.exists("staged/one.txt")) == ("1", False)


def test_a_store_whose_jar_is_missing(spark: "SparkSession") -> None:
    with pytest.raises(StoreError, match=r"lacks the jar.*org\.apache\.hadoop:hadoop-aws:3"):
        TableFolder(spark, "s3://bucket/orders")


def test_a_sessions_settings(spark: "SparkSession") -> None:
    """What the file or the program sets counts, and reaches the source's processes."""
    own = own_session(spark)
    own.conf.set("fs.s3a.bucket.lake.secret.key", "hush")
    own.conf.set("spark.sql.catalog.lake.uri", "sqlite:////lake.db")
    settings = session_settings(own)
    assert settings["fs.s3a.bucket.lake.secret.key"] == "hush"
    assert settings["spark.sql.catalog.lake.uri"] == "sqlite:////lake.db"
    assert "spark.sql.catalog.lake.uri" not in session_settings(spark)


def test_the_sources_processes_know_a_sessions_settings(spark: "SparkSession", tmp_path: Path) -> None:
    """A history in a catalogue that only the session knows; the table is not there, which they have seen."""
    own = own_session(spark)
    own.conf.set("spark.sql.catalog.lake.uri", f"sqlite:///{tmp_path}/lake.db")
    own.conf.set("spark.sql.catalog.lake.warehouse", f"file://{tmp_path}")
    before = dict(spark.sparkContext.environment)
    try:
        register(own)
        options = source_options("127.0.0.1:1", "t", Path("/"), history="catalog://lake/a.b")
        with pytest.raises(Exception, match="the catalogue there has no such table"):
            own.read.format("headrace").options(**options).load().count()
    finally:
        spark.sparkContext.environment.clear()
        spark.sparkContext.environment.update(before)
