"""`python -m tests.spark.class_archive`: keep Spark's classes in a file, from which JVMs of tests map them.

A JVM that becomes a session reads, checks and links fifteen thousand classes, which is half of its start. One
that is told of a class data sharing archive (JEP 350) maps them as they were when another JVM ended that had
done what tests do. The file lies in the cache beside what else tests need, is named after Java and Spark, and
any JVM that it does not fit starts as if there were none. To make it
takes 20 seconds of CPU; each start saves 4.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

_QUIET: Final = "-Xlog:disable"
# Of one JVM, whose classes are those that tests need.
_PROGRAM: Final = """
import sys
from pyspark.sql.functions import udf
from headrace.spark.session import spark_session
from headrace.testing import Cluster

folder = sys.argv[1]
spark = spark_session("classes", master="local[2]", config={"spark.sql.shuffle.partitions": "2"})
numbers = spark.range(0, 100, 1, 2).selectExpr("id", "cast(id AS string) AS value")
numbers.groupBy((numbers.id % 7).alias("id")).count().join(numbers, "id", "left").collect()
numbers.select(udf(lambda number: number + 1, "long")("id")).toArrow()
numbers.write.parquet(f"{folder}/table")
assert spark.read.parquet(f"{folder}/table").count() == 100
with Cluster() as cluster:
    cluster.create_topic("t")
    options = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "topic": "t"}
    numbers.select("value").write.format("headrace").options(**options).mode("append").save()
    options = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": "t"}
    stream = spark.readStream.format("headrace").options(**options, startingOffsets="earliest")
    writer = stream.load().writeStream.foreachBatch(lambda rows, _: rows.count())
    writer.option("checkpointLocation", f"{folder}/c").trigger(availableNow=True).start().awaitTermination()
spark.stop()
"""


def archive() -> Path | None:
    """Where the file is or would be; None where Java or Spark are not found at once."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java") if home is None else f"{home}/bin/java"
    spark = importlib.util.find_spec("pyspark")
    if java is None or spark is None or spark.origin is None or not Path(java).exists():
        return None
    jars = Path(spark.origin).parent / "jars"
    own = (Path(java).resolve(), jars, Path(java).stat().st_mtime_ns, jars.stat().st_mtime_ns)
    number = hashlib.sha256("\0".join(map(str, own)).encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "headrace-tests" / f"spark-classes-{number}.jsa"


def options() -> str:
    """For a JVM of Spark's; nothing where there is no file."""
    path = archive()
    return "" if path is None or not path.exists() else f" -XX:SharedArchiveFile={path} -Xlog:cds*=off"


def make(path: Path) -> bool:
    """Have a JVM do what tests do, and keep its classes at its end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder, "classes.jsa")
        given = f"-XX:ArchiveClassesAtExit={made} {_QUIET} -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
        # Its end is that of the pipe, which outlives Python's.
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, folder],
            env={**os.environ, "SPARK_SUBMIT_OPTS": given},
            capture_output=True,
            text=True,
            timeout=600,
        )
        if done.returncode or not made.exists():
            print(f"test: no archive of Spark's classes:\n{done.stderr[-2000:]}", file=sys.stderr)
            return False
        made.rename(path)
    return True


def main() -> None:
    path = archive()
    if path is not None and not path.exists():
        make(path)


if __name__ == "__main__":
    main()
