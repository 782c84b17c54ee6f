"""python -m bench.spark [--quick] [--rounds N] [--steps STEP...] [--config NAME=VALUE...] [--markdown FILE]
[--json FILE]: our source and sink beside Spark's JVM connector.

The connector, from Maven Central, works on Apache Kafka; ours on headrace. Same machine, same Spark, same
queries: write rows, read them all, read them by availableNow in five batches, copy them to another topic by
a stream, in five batches too; 5 million rows of 100 B and 1 million of 1 KB in four partitions. headrace is
read a second time directly from its segment files (`read.mode=segments`) and written a second time exactly
once; both are held against the only way that the connector has. Its stream writes at least once, ours exactly
once, as is its default. Each side has a broker and a Spark of its own, which run one after the other; what is
measured was warmed up by a round of the same with a fifth of the rows. Figures are medians over the rounds.

Rows to write are made of a number and a constant, which costs Spark next to nothing: with `rpad`, which goes
byte by byte, most of a write of 1 KB was the making of its rows, on both sides.

What a step has written is on the disk before the next begins: some gigabytes later the kernel would make
whoever writes wait for it, and headrace, which is written to once more, sooner than the other. And there is
memory for it: see `machine.ready_memory`.

Both sides have a session of `headrace.spark.session`, and what it sets holds for both: a file of a checkpoint
takes two processes instead of ten. Workers that load compiled modules help ours alone, as the connector has
no workers in Python; so would `spark.python.unix.domain.socket.enabled=true`, which is off unless `--config`
says otherwise.

CPU is that of the broker for each row, and that of Spark (its JVM and Python workers).
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.brokers import KAFKA_LIBS, ROOT, Broker, Headrace, Kafka
from bench.machine import cpu_seconds, ready_memory, tree_cpu_seconds
from bench.report import Goal, as_markdown, at_least, at_most

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

PARTITIONS = 4
BATCHES = 5
NUMBER_CHARS = 20
_FIGURES = "figures "
STEPS = ("exactly-once write", "read", "direct read", "availableNow", "stream copy")
# What the connector has no twin of is held against what it has.
INSTEAD = {"direct read": "read", "exactly-once write": "write"}
# A JVM compiles what it runs often: in one session the CPU of a direct read of 5 million rows went from 0.73
# to 0.45 µs a row over a dozen reads (of other kinds too, on a busy machine). Both sides get the same.
WARM_UP_SHARE = 5
MEMORY_GB = 3  # what a step writes, in the broker's page cache and on its way there
EXACT, COPY = "-exact", "-copy"  # behind the names of topics that are written exactly once, and by a stream


class Load(NamedTuple):
    """So many rows with values of so many bytes."""

    name: str
    rows: int
    size: int

    @property
    def topic(self) -> str:
        return f"load-{self.size}"


LOADS = (Load("100 B", 5_000_000, 100), Load("1 KB", 1_000_000, 1000))

GOALS: dict[str, Goal] = {
    "read 100 B | rows_s": at_least(2),
    "read 1 KB | rows_s": at_least(1.5),
    "availableNow 100 B | rows_s": at_least(2),
    "availableNow 1 KB | rows_s": at_least(1.5),
    "direct read 100 B | rows_s": at_least(2.5),
    "direct read 1 KB | rows_s": at_least(2),
    # None at all, but for the manifest.
    "direct read 100 B | broker_cpu_us": at_most(0.05),
    "direct read 1 KB | broker_cpu_us": at_most(0.05),
    "write 100 B | rows_s": at_least(3),
    "write 1 KB | rows_s": at_least(3),
    "exactly-once write 100 B | rows_s": at_least(2),
    "exactly-once write 1 KB | rows_s": at_least(2),
    "stream copy 100 B | rows_s": at_least(2),
    "stream copy 1 KB | rows_s": at_least(2),
}

Figures = dict[str, dict[str, float]]
Publish = Callable[[str, dict[str, float]], None]


class Bench:
    """One side, inside its own Spark."""

    def __init__(
        self,
        spark: "SparkSession",
        format_name: str,
        broker: str,
        broker_pid: int,
        steps: Sequence[str],
        tell: Publish,
    ) -> None:
        self._spark = spark
        self._format = format_name
        self._steps = steps
        self._options = {"kafka.bootstrap.servers": broker}
        self._broker_pid = broker_pid
        self._tell = tell

    def run(self, load: Load) -> None:
        """A small round that nobody counts, then the real one."""
        self._round(load._replace(rows=load.rows // WARM_UP_SHARE), f"{load.topic}-warm", lambda *_: None)
        self._round(load, load.topic, self._tell)

    def _round(self, load: Load, topic: str, tell: Publish) -> None:
        tell(f"write {load.name}", self._measured(load, lambda: self._write(load, topic)))
        exact, copy = f"{topic}{EXACT}", f"{topic}{COPY}"
        kinds: dict[str, Callable[[], None]] = {
            "read": lambda: self._read(load, topic),
            "availableNow": lambda: self._available_now(load, topic),
            "stream copy": lambda: self._copy(load, topic, copy),
        }
        if self._format == "headrace":
            kinds["exactly-once write"] = lambda: self._write(load, exact, delivery="exactly_once")
            kinds["direct read"] = lambda: self._read(load, topic, **{"read.mode": "segments"})
        written = {"exactly-once write": exact, "stream copy": copy}
        for step in STEPS:
            if step in self._steps and step in kinds:
                found = self._measured(load, kinds[step])
                if step in written:
                    self._read(load, written[step], **{"kafka.isolation.level": "read_committed"})
                tell(f"{step} {load.name}", found)

    def _measured(self, load: Load, work: Callable[[], None]) -> dict[str, float]:
        ready_memory(MEMORY_GB)
        spark_s, broker_s, began = (
            tree_cpu_seconds(os.getpid()),
            cpu_seconds(self._broker_pid),
            time.monotonic(),
        )
        work()
        seconds = time.monotonic() - began
        return {
            "rows_s": load.rows / seconds,
            "broker_cpu_us": (cpu_seconds(self._broker_pid) - broker_s) / load.rows * 1e6,
            "spark_cpu_us": (tree_cpu_seconds(os.getpid()) - spark_s) / load.rows * 1e6,
        }

    def _write(self, load: Load, topic: str, **options: str) -> None:
        from pyspark.sql import functions as F  # noqa: N812

        number = F.lpad(F.col("id").cast("string"), NUMBER_CHARS, "0")
        value = F.concat(number, F.lit("x" * (load.size - NUMBER_CHARS)))
        rows = self._spark.range(0, load.rows, 1, PARTITIONS).select(
            F.col("id").cast("string").cast("binary").alias("key"), value.cast("binary").alias("value")
        )
        writer = rows.write.format(self._format).options(**self._options, **options)
        writer.option("topic", topic).mode("append").save()

    def _read(self, load: Load, topic: str, **options: str) -> None:
        reader = self._spark.read.format(self._format).options(**self._options, **options)
        ((rows, length, _),) = self._sum(reader.option("subscribe", topic).load()).collect()
        assert (rows, length) == (load.rows, load.rows * load.size), (rows, length)

    def _available_now(self, load: Load, topic: str) -> None:
        writer = self._sum(self._stream(load, topic)).writeStream.format("noop").outputMode("complete")
        self._run_to_the_end(load, writer)

    def _copy(self, load: Load, topic: str, into: str) -> None:
        writer = self._stream(load, topic).select("key", "value").writeStream.format(self._format)
        self._run_to_the_end(load, writer.options(**self._options).option("topic", into))

    def _stream(self, load: Load, topic: str) -> "DataFrame":
        reader = self._spark.readStream.format(self._format).options(**self._options)
        reader.option("subscribe", topic).option("startingOffsets", "earliest")
        return reader.option("maxOffsetsPerTrigger", load.rows // BATCHES).load()

    def _run_to_the_end(self, load: Load, writer: "DataStreamWriter") -> None:
        with tempfile.TemporaryDirectory(prefix="bench-checkpoint-") as folder:
            query = writer.option("checkpointLocation", folder).trigger(availableNow=True).start()
            query.awaitTermination()
            assert sum(each["numInputRows"] for each in query.recentProgress) == load.rows

    def _sum(self, rows: "DataFrame") -> "DataFrame":
        from pyspark.sql import functions as F  # noqa: N812

        return rows.agg(F.count("*"), F.sum(F.length("value")), F.max("offset"))


def work(arguments: dict[str, Any]) -> None:
    """The child process: one broker, one format, one load after the other; each figure is a line of JSON."""
    from headrace.spark.session import spark_session

    config = {
        "spark.driver.memory": "3g",
        "spark.sql.shuffle.partitions": "2",
        "spark.jars": arguments["jars"],
        **arguments["config"],
    }
    spark = spark_session("bench", master="local[2]", config=config, tell=lambda _: None)
    steps = arguments["steps"]
    bench = Bench(spark, arguments["format"], arguments["broker"], arguments["pid"], steps, _as_line)
    for load in arguments["loads"]:
        bench.run(Load(*load))
    spark.stop()


def _as_line(step: str, found: dict[str, float]) -> None:
    print(_FIGURES + json.dumps([step, found]), flush=True)


def measure(
    broker: Broker,
    format_name: str,
    jars: str,
    loads: list[Load],
    steps: Sequence[str],
    config: Mapping[str, str],
) -> Iterator[tuple[str, dict[str, float]]]:
    """Everything for one side, in a process of its own, as it is found."""
    from bench.loads import create

    for load in loads:
        for topic in (load.topic, f"{load.topic}-warm"):
            for suffix in ("", EXACT, COPY):
                create(broker, topic + suffix, PARTITIONS)
    arguments = {
        "format": format_name,
        "broker": broker.address,
        "pid": broker.pid,
        "jars": jars,
        "loads": [list(load) for load in loads],
        "steps": list(steps),
        "config": dict(config),
    }
    command = [sys.executable, "-m", "bench.spark", "--work", json.dumps(arguments)]
    with tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith(_FIGURES):
                    step, found = json.loads(line.removeprefix(_FIGURES))
                    yield step, found
        if process.returncode:
            errors.seek(0)
            said = errors.read()[-4000:]
            raise RuntimeError(f"Spark with {format_name} ended with {process.returncode}:\n{said}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, one round")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--sides", nargs="+", choices=("kafka", "headrace"), default=("kafka", "headrace"))
    parser.add_argument("--loads", nargs="+", choices=[load.name for load in LOADS], metavar="SIZE")
    parser.add_argument(
        "--steps", nargs="*", choices=STEPS, default=STEPS, metavar="STEP", help="besides writing"
    )
    parser.add_argument(
        "--config", nargs="+", default=(), metavar="NAME=VALUE", help="settings of Spark, on both sides"
    )
    parser.add_argument("--markdown", type=Path, help="also write the table here")
    parser.add_argument("--json", type=Path, help="also write all figures here")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(json.loads(options.work))
        return 0
    if not KAFKA_LIBS.is_dir():
        print(f"bench: no Apache Kafka in {KAFKA_LIBS}: run ./test --all once", file=sys.stderr)
        return 2
    from tests.compat.prepare import connector_libs

    jars = ",".join(sorted(map(str, connector_libs().glob("*.jar"))))
    loads = [load for load in LOADS if not options.loads or load.name in options.loads]
    if options.quick:
        loads = [load._replace(rows=load.rows // 10) for load in loads]
    config = dict(pair.split("=", 1) for pair in options.config)
    figures: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for number in range(1 if options.quick else options.rounds):
        print(f"round {number + 1}", flush=True)
        for kind, name, with_jars in ((Kafka, "kafka", jars), (Headrace, "headrace", "")):
            if name not in options.sides:
                continue
            with kind() as broker:
                for step, found in measure(broker, name, with_jars, loads, options.steps, config):
                    for unit, value in found.items():
                        figures[f"{step} | {unit}"][kind.name].append(value)
                        print(f"  {kind.name:9} {step:24} {unit:14} {value:12.2f}", flush=True)
    table = as_markdown(compared(figures), GOALS)
    print(table)
    if options.markdown:
        options.markdown.write_text(table)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))
    return 0


def compared(figures: dict[str, dict[str, list[float]]]) -> Figures:
    """Medians, with the connector's nearest figure where it has none of its own."""
    medians = {
        step: {name: statistics.median(values) for name, values in sides.items()}
        for step, sides in figures.items()
    }
    for step, sides in medians.items():
        for ours, theirs in INSTEAD.items():
            if step.startswith(ours) and "kafka" in (nearest := medians.get(step.replace(ours, theirs), {})):
                sides["kafka"] = nearest["kafka"]
    return medians


if __name__ == "__main__":
    sys.exit(main())
