"""A table's folder does the same by Hadoop's file system and, in tests without a session, by Python's own."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.spark.loads.folders import TableFolder
from tests.spark.local_folder import LocalFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("is_local", [False, True], ids=["hadoop", "local"])
def test_a_folder(is_local: bool, spark: "SparkSession", tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path) if is_local else TableFolder(spark, str(tmp_path))
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
