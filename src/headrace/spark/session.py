"""A Spark session on this machine, or on the cluster that `spark-submit` chose, with nothing else to install.

    spark = spark_session("page views")
    spark.read.format("headrace").option("kafka.bootstrap.servers", "127.0.0.1:9092")...

What a local session needs is seen to here: a Java (`java_home.py`), workers that run this Python and not the
system's (`worker_python.py`), sockets on loopback only. Started by `spark-submit`, none of it is
touched: master, Java and Python are the cluster's affair, so one program runs on a laptop and on a cluster.

A JVM takes 7 to 8 seconds to become a session, and its first job some seconds more. `tell` is told so before.
"""

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from headrace.spark.java_home import find_java_home
from headrace.spark.worker_python import workers_of_compiled_modules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What our source and sink want of every session. `config` has the last word.
SETTINGS: Final = {
    # Filters on partition, offset and timestamp reach the source; else Spark refuses a source that takes any.
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Batches to Python are cut by rows only, 10,000 of any size, unless bytes are limited too: it keeps
    # workers small with large records, and 4 MiB take a sixth less CPU than 10 (records of 1 KB).
    "spark.sql.execution.arrow.maxBytesPerBatch": str(4 * 1024 * 1024),
}
# A single machine: no web page on a port that others see, and no 200 tasks for a shuffle of a few rows.
LOCAL_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
    # A file of a checkpoint is written aside and renamed. By default that goes through Hadoop's FileContext,
    # which starts eight more processes (`readlink`) for each file of a local folder, three files a batch.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


def spark_session(
    app_name: str,
    *,
    master: str = "local[*]",
    config: Mapping[str, str] | None = None,
    log_level: str = "ERROR",
    tell: Callable[[str], None] | None = None,
) -> "SparkSession":
    """The session of this process, made where there is none yet.

    `master` holds where `spark-submit` did not start this program. `tell` gets one line about the wait; by
    default it goes to stderr, since what is on stdout may be somebody's data.
    """
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    is_local = not submitted and master.startswith("local")
    if not submitted:
        (tell or _to_stderr)("starting Spark, which takes some 10 seconds")
    if is_local:
        prepare_environment()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name)
    if not submitted:
        builder = builder.master(master)
    for name, value in {**SETTINGS, **(LOCAL_SETTINGS if is_local else {}), **(config or {})}.items():
        builder = builder.config(name, value)
    with workers_of_compiled_modules() if is_local else nullcontext():
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel(log_level)
    # Spark finds the format by itself (pyspark_headrace), but not where Python's path has a space in it: it
    # asks a shell whether there is such a command.
    from headrace.spark.data_source import HeadraceDataSource

    session.dataSource.register(HeadraceDataSource)
    return session


def prepare_environment() -> None:
    """Environment variables for a Spark that runs on this machine, for this process and its children."""
    os.environ["JAVA_HOME"] = str(find_java_home())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _to_stderr(line: str) -> None:
    print(f"headrace: {line}", file=sys.stderr, flush=True)
