"""What the Spark at hand can do, as far as source and sink depend on it.

Python sources came with Spark 4.0. Later versions do more for them: 4.1 hands down filters and has streams
written as Arrow, 4.2 says where a micro-batch begins and how large it may be. Each ability is looked for in
the `pyspark` that a process has, where it would be: platforms number their Sparks in ways of their own.
"""

from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zipfile import BadZipFile, ZipFile

import pyspark
from pyspark.sql import datasource

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

PUSHES_FILTERS: Final = hasattr(datasource.DataSourceReader, "pushFilters")
WRITES_STREAMS_AS_ARROW: Final = hasattr(datasource, "DataSourceStreamArrowWriter")
LIMITS_BATCHES: Final = find_spec("pyspark.sql.streaming.datasource") is not None

# Classes of Spark's JVM that moved between versions, the newest first.
_CHECKPOINT_FILE_MANAGERS: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
    "org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager",
)


def needs_newer(what: str, version: str, instead: str) -> str:
    """The sentence about something that came with a later version."""
    return f"{what} needs Spark {version} or newer, and this is {pyspark.__version__}: {instead}"


def arrow_schema(schema: "StructType") -> Any:
    """A schema for Arrow, with times in UTC, which Spark's own function is told in ways of its version."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # Before 4.2 they are in UTC unless something else is said.
    in_utc: dict[str, Any] = (
        {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    )
    return to_arrow_schema(schema, **in_utc)


def checkpoint_file_manager(spark_home: Path) -> str | None:
    """The class that writes a checkpoint's files through a plain file system; None where there is none."""
    for jar in sorted((spark_home / "jars").glob("spark-sql_*.jar")):
        try:
            with ZipFile(jar) as archive:
                names = archive.NameToInfo
        except (OSError, BadZipFile):
            continue
        for each in _CHECKPOINT_FILE_MANAGERS:
            if f"{each.replace('.', '/')}.class" in names:
                return each
    return None
