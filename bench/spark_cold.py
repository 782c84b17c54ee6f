"""python -m bench.spark_cold [--rounds N] [--rows N] [--sessions plain|ours ...] [--json FILE]: what a job
feels that has just started, our source and sink beside Spark's JVM connector.

Every figure is of a Spark that was started for it, and brokers that have run for a while. `first write` and
`first read` are of 100 rows, in a session that has done nothing yet, one after the other; `second` the same
once more. `whole job` starts a session, writes 2 million rows of 100 B and reads them, to its end. A session
is plain, as any program makes one, or of `headrace.spark.session`. The connector's jars are in its session's
settings. Rounds alternate between the sides; figures are medians.

CPU is that of Spark: driver, JVM and Python workers. On a busy machine it says more than seconds do.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.brokers import KAFKA_LIBS, ROOT, Broker, Headrace, Kafka
from bench.machine import tree_cpu_seconds
from bench.report import Goal, as_markdown, at_most
from bench.spark import NUMBER_CHARS, PARTITIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL_ROWS = 100
ROWS = 2_000_000
VALUE_BYTES = 100
SESSIONS = ("plain", "ours")
_FIGURES = "figures "
Figures = dict[str, float]

GOALS: dict[str, Goal] = {
    f"{step}, {session} session | seconds": at_most(ratio)
    for session in SESSIONS
    for step, ratio in (("first write", 1.0), ("first read", 1.0), ("whole job", 0.5))
}


class Job:
    """What one process does."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self._format = arguments["format"]
        self._options = {"kafka.bootstrap.servers": arguments["broker"]}
        self._jars = arguments["jars"]
        self._session = arguments["session"]
        self._rows = arguments["rows"]
        self._topic = arguments["topic"]

    def first_steps(self) -> Iterator[tuple[str, Figures]]:
        spark = self._opened()
        for number in ("first", "second"):
            yield f"{number} write", _measured(lambda: self._write(spark, SMALL_ROWS))
            expected = SMALL_ROWS if number == "first" else 2 * SMALL_ROWS
            yield f"{number} read", _measured(lambda rows=expected: self._read(spark, rows))  # type: ignore[misc]
        spark.stop()

    def whole(self) -> Iterator[tuple[str, Figures]]:
        def work() -> None:
            spark = self._opened()
            self._write(spark, self._rows)
            self._read(spark, self._rows)
            spark.stop()

        yield "whole job", _measured(work)

    def _opened(self) -> "SparkSession":
        config = {"spark.driver.memory": "3g", **({"spark.jars": self._jars} if self._jars else {})}
        if self._session == "ours":
            from headrace.spark.session import spark_session

            return spark_session("bench", master="local[2]", config=config, tell=lambda _: None)
        from pyspark.sql import SparkSession

        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder.master("local[2]").appName("bench")
        for name, value in config.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()

    def _write(self, spark: "SparkSession", count: int) -> None:
        from pyspark.sql import functions as F  # noqa: N812

        number = F.lpad(F.col("id").cast("string"), NUMBER_CHARS, "0")
        value = F.concat(number, F.lit("x" * (VALUE_BYTES - NUMBER_CHARS)))
        rows = spark.range(0, count, 1, PARTITIONS).select(
            F.col("id").cast("string").cast("binary").alias("key"), value.cast("binary").alias("value")
        )
        writer = rows.write.format(self._format).options(**self._options)
        writer.option("topic", self._topic).mode("append").save()

    def _read(self, spark: "SparkSession", count: int) -> None:
        from pyspark.sql import functions as F  # noqa: N812

        reader = spark.read.format(self._format).options(**self._options).option("subscribe", self._topic)
        ((found, size),) = reader.load().agg(F.count("*"), F.sum(F.length("value"))).collect()
        assert (found, size) == (count, count * VALUE_BYTES), (found, size)


def _measured(work: Callable[[], None]) -> Figures:
    cpu_s, since = tree_cpu_seconds(os.getpid()), time.monotonic()
    work()
    return {"seconds": time.monotonic() - since, "cpu_s": tree_cpu_seconds(os.getpid()) - cpu_s}


def measure(broker: Broker, arguments: dict[str, Any]) -> Iterator[tuple[str, Figures]]:
    """A process of its own, with a topic of its own."""
    from bench.loads import create, delete

    topic = f"cold-{time.monotonic_ns()}"
    create(broker, topic, PARTITIONS)
    given = {**arguments, "broker": broker.address, "topic": topic}
    command = [sys.executable, "-m", "bench.spark_cold", "--work", json.dumps(given)]
    with tempfile.TemporaryFile("w+") as errors:
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True)
        if done.returncode:
            errors.seek(0)
            raise RuntimeError(f"Spark ended with {done.returncode}:\n{errors.read()[-4000:]}")
    delete(broker, topic)
    for line in done.stdout.splitlines():
        if line.startswith(_FIGURES):
            step, found = json.loads(line.removeprefix(_FIGURES))
            yield step, found


def run(
    rounds: int, rows: int, sessions: Sequence[str], jobs: Sequence[str], sides: Sequence[str]
) -> dict[str, dict[str, list[float]]]:
    from tests.compat.prepare import connector_libs

    jars = ",".join(sorted(map(str, connector_libs().glob("*.jar"))))
    figures: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with ExitStack() as stack:
        brokers = {kind.name: stack.enter_context(kind()) for kind in (Kafka, Headrace) if kind.name in sides}
        for _ in range(rounds):
            for session in sessions:
                for job in jobs:
                    for name, broker in brokers.items():
                        arguments = {
                            "job": job,
                            "format": name,
                            "jars": jars if name == "kafka" else "",
                            "session": session,
                            "rows": rows,
                        }
                        for step, found in measure(broker, arguments):
                            for unit, value in found.items():
                                figures[f"{step}, {session} session | {unit}"][name].append(value)
                                print(f"  {name:9} {session:6} {step:14} {unit:8} {value:8.2f}", flush=True)
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.spark_cold", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--sessions", nargs="+", choices=SESSIONS, default=SESSIONS)
    parser.add_argument(
        "--jobs", nargs="+", choices=("first_steps", "whole"), default=("first_steps", "whole")
    )
    parser.add_argument("--sides", nargs="+", choices=("kafka", "headrace"), default=("kafka", "headrace"))
    parser.add_argument("--json", type=Path, help="also write all figures here")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        arguments = json.loads(options.work)
        for found in getattr(Job(arguments), arguments["job"])():
            print(_FIGURES + json.dumps(found), flush=True)
        return 0
    if not KAFKA_LIBS.is_dir():
        print(f"bench: no Apache Kafka in {KAFKA_LIBS}: run ./test --all once", file=sys.stderr)
        return 2
    figures = run(options.rounds, options.rows, options.sessions, options.jobs, options.sides)
    medians = {
        step: {name: statistics.median(values) for name, values in sides.items()}
        for step, sides in figures.items()
    }
    print(as_markdown(medians, GOALS))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
