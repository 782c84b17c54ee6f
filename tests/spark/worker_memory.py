"""python -m tests.spark.worker_memory [--mb 4096]: how much memory one Python worker of Spark takes to write
a feed that is many times as large, and to read it.

A single task writes all of it, then a single task reads all of it, so whatever is kept for a whole task shows
in one process. Counted is by how much the largest worker grew beyond what it had before: an earlier, small
round has loaded its modules and opened its connections. CI runs a short form (`test_worker_memory`).
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.spark.session import spark_session
from headrace.testing import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A producer has 32 MiB on its way, a fetcher holds some 20 MiB; the rest is what is encoded or decoded just
# now, and what malloc keeps. For 1 GB it was 42 MB to write and 20 MB to read.
GROWTH_MB_MAX: Final = 80
_VALUE_BYTES: Final = 10_000
_SMALL_ROWS: Final = 2_000
_FORGET_PEAK: Final = "5"  # for clear_refs


def growths(spark: "SparkSession", bootstrap: str, topic: str, mb: int) -> Iterator[tuple[str, float]]:
    """What was done, and by how many MB the worker that did it grew at most."""
    count = mb * 1_000_000 // _VALUE_BYTES
    _write(spark, bootstrap, topic, _SMALL_ROWS)
    yield "write", _growth(lambda: _write(spark, bootstrap, topic, count))
    _read(spark, bootstrap, topic, f"offset < {_SMALL_ROWS}", _SMALL_ROWS)
    yield "read", _growth(lambda: _read(spark, bootstrap, topic, f"offset >= {_SMALL_ROWS}", count))


def _write(spark: "SparkSession", bootstrap: str, topic: str, count: int) -> None:
    rows = spark.range(0, count, 1, 1).selectExpr(
        "cast(id AS string) AS key", f"concat(lpad(id, 20, '0'), '{'x' * (_VALUE_BYTES - 20)}') AS value"
    )
    writer = rows.write.format("headrace").option("kafka.bootstrap.servers", bootstrap)
    writer.option("topic", topic).mode("append").save()


def _read(spark: "SparkSession", bootstrap: str, topic: str, condition: str, count: int) -> None:
    """In one task, since there is one partition; each of the rows is looked at."""
    reader = spark.read.format("headrace").option("kafka.bootstrap.servers", bootstrap)
    rows = reader.option("subscribe", topic).load().where(condition)
    found = rows.selectExpr("count(*)", "sum(length(value))").collect()
    assert found == [(count, count * _VALUE_BYTES)]


def _growth(work: Callable[[], None]) -> float:
    before = {}
    for worker in _workers():
        (worker / "clear_refs").write_text(_FORGET_PEAK)
        before[worker] = _peak_mb(worker)
    assert before, "no worker is left of the small round"
    # Spark may have a new worker do it: that one is held to be what the others were.
    usual = max(before.values())
    work()
    return max(_peak_mb(worker) - before.get(worker, usual) for worker in _workers())


def _workers() -> list[Path]:
    """Processes of Python below this one that serve tasks."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:  # it has just ended
                continue
    return [
        Path("/proc") / str(pid)
        for pid, parent in parents.items()
        if _runs_tasks(pid) and _runs_tasks(parent) and os.getpid() in _ancestors(pid, parents)
    ]


def _runs_tasks(pid: int) -> bool:
    """Whether it is Spark's daemon for tasks, or a worker, which is a fork of it."""
    try:
        return b"pyspark.daemon\0pyspark.worker\0" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _ancestors(pid: int, parents: dict[int, int]) -> Iterator[int]:
    while pid := parents.get(pid, 0):
        yield pid


def _peak_mb(process: Path) -> float:
    try:
        lines = (process / "status").read_text().splitlines()
    except OSError:
        return 0.0
    return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) / 1024


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.spark.worker_memory", description=__doc__)
    parser.add_argument("--mb", type=int, default=4096, help="how large the feed is")
    options = parser.parse_args()
    spark = spark_session("worker memory", master="local[2]", config={"spark.driver.memory": "1g"})
    is_fine = True
    with Cluster() as cluster:
        cluster.create_topic("large", 1)
        for what, grown in growths(spark, cluster.bootstrap_servers, "large", options.mb):
            is_fine = is_fine and grown < GROWTH_MB_MAX
            print(f"{what} {options.mb} MB in one task: its worker grew by {grown:.0f} MB", flush=True)
    spark.stop()
    return 0 if is_fine else 1


if __name__ == "__main__":
    sys.exit(main())
