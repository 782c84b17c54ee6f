"""What is tried on a version of Spark, in a process of its environment.

A trial fails where a row is missing, comes twice or is wrong, whatever the version. What may differ between
versions is what it returns, in a few words.
"""

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from headrace.clients import Admin, Producer
from headrace.spark.loads.feed_load import FeedLoad, run_load
from headrace.spark.session import spark_session
from headrace.testing import Cluster
from tests.compat.clients.face import eventually
from tests.spark.source_topics import delete_topic
from tests.spark.whole_topics import whole_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PARTITIONS: Final = 3
WAIT_S: Final = 120
YES: Final = "yes"


class Trial:
    """A node, a session, and a folder for checkpoints and tables."""

    def __init__(self, spark: "SparkSession", brokers: str, folder: Path) -> None:
        self.spark = spark
        self.brokers = brokers
        self.folder = folder

    def topic(self, count: int = 0) -> str:
        name = f"t-{uuid.uuid4().hex[:12]}"
        self.create(name)
        self.send(name, 0, count)
        return name

    def create(self, name: str) -> None:
        with Admin(bootstrap_servers=self.brokers) as admin:
            admin.create_topic(name, partitions=PARTITIONS)

    def send(self, topic: str, first: int, end: int) -> None:
        with Producer(bootstrap_servers=self.brokers) as producer:
            for number in range(first, end):
                producer.send(topic, b'{"n": %d}' % number, key=b"%d" % number, partition=number % PARTITIONS)

    def options(self, topic: str, **more: str) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.brokers, "subscribe": topic, **more}

    def read(self, topic: str, **more: str) -> "DataFrame":
        return self.spark.read.format("headrace").options(**self.options(topic, **more)).load()

    def stream(self, topic: str, **more: str) -> "DataFrame":
        given = self.options(topic, **{"startingOffsets": "earliest", **more})
        return self.spark.readStream.format("headrace").options(**given).load()

    def new_folder(self) -> str:
        return str(self.folder / uuid.uuid4().hex[:12])

    def numbers_in(self, topic: str) -> list[int]:
        """By a client that knows nothing of Spark."""
        return sorted(json.loads(each.value or b"null")["n"] for each in whole_topic(self.brokers, topic))


class Seen:
    """The numbers that a stream's batches have had, in a list for each."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []

    def __call__(self, rows: "DataFrame", _: int) -> None:
        self.batches.append([json.loads(row.value)["n"] for row in rows.select("value").collect()])

    @property
    def numbers(self) -> list[int]:
        return sorted(number for batch in self.batches for number in batch)


def ended(query: "StreamingQuery") -> None:
    assert query.awaitTermination(WAIT_S), query.status


def collected(rows: "DataFrame", checkpoint: str) -> Seen:
    """What there is now, behind what the checkpoint knows."""
    seen = Seen()
    writer = rows.writeStream.foreachBatch(seen).option("checkpointLocation", checkpoint)
    ended(writer.trigger(availableNow=True).start())
    return seen


# Trials


def batch_write(trial: Trial) -> str:
    topic = trial.topic()
    rows = trial.spark.range(0, 1000, 1, 4).selectExpr(
        "CAST(CAST(id AS STRING) AS BINARY) AS key",
        "CAST(to_json(named_struct('n', id)) AS BINARY) AS value",
        "array(named_struct('key', 'h', 'value', CAST('x' AS BINARY))) AS headers",
    )
    for delivery in ("at_least_once", "exactly_once"):
        topic = trial.topic()
        given = {"kafka.bootstrap.servers": trial.brokers, "topic": topic, "delivery": delivery}
        rows.write.format("headrace").options(**given).mode("append").save()
        assert trial.numbers_in(topic) == list(range(1000)), delivery
        assert all(each.headers == (("h", b"x"),) for each in whole_topic(trial.brokers, topic))
    return YES


def batch_read(trial: Trial) -> str:
    topic = trial.topic(1000)
    rows = trial.read(topic, includeHeaders="true").collect()
    assert sorted(json.loads(row.value)["n"] for row in rows) == list(range(1000))
    assert {row.topic for row in rows} == {topic}
    assert trial.read(topic).limit(5).count() == 5
    return YES


def filters(trial: Trial) -> str:
    topic = trial.topic(300)
    rows = trial.read(topic).where("partition = 1 AND offset >= 90")
    assert [row.offset for row in rows.orderBy("offset").collect()] == list(range(90, 100))
    return "source" if rows.rdd.getNumPartitions() == 1 else "Spark"


def sql_tables(trial: Trial) -> str:
    topic = trial.topic(30)
    given = ", ".join(f"'{name}' '{value}'" for name, value in trial.options(topic).items())
    trial.spark.sql(f"CREATE TABLE numbers USING headrace OPTIONS ({given})")
    try:
        assert trial.spark.sql("SELECT count(*) AS n FROM numbers").collect()[0].n == 30
    finally:
        trial.spark.sql("DROP TABLE numbers")
    return YES


def stream_read(trial: Trial) -> str:
    """In three runs, the last of which has nothing to do."""
    topic, checkpoint = trial.topic(100), trial.new_folder()
    assert collected(trial.stream(topic), checkpoint).numbers == list(range(100))
    trial.send(topic, 100, 150)
    assert collected(trial.stream(topic), checkpoint).numbers == list(range(100, 150))
    assert collected(trial.stream(topic), checkpoint).numbers == []
    return YES


def stream_from_latest(trial: Trial) -> str:
    """Restarted without a commit of its first batch, whose start is not to move."""
    topic, checkpoint = trial.topic(100), trial.new_folder()
    rows = trial.stream(topic, startingOffsets="latest")
    assert collected(rows, checkpoint).numbers == []
    trial.send(topic, 100, 150)
    assert collected(rows, checkpoint).numbers == list(range(100, 150))
    forget_last_commit(checkpoint)
    trial.send(topic, 150, 180)
    again = collected(rows, checkpoint)
    assert sorted(again.batches[0]) == list(range(100, 150))
    rest = [] if len(again.batches) > 1 else collected(rows, checkpoint).batches
    assert sorted(number for batch in [*again.batches[1:], *rest] for number in batch) == list(
        range(150, 180)
    )
    return YES


def stream_that_runs(trial: Trial) -> str:
    """Batches one after the other, and a partition more in between."""
    topic, seen = trial.topic(10), Seen()
    writer = trial.stream(topic).writeStream.foreachBatch(seen)
    query = (
        writer.option("checkpointLocation", trial.new_folder()).trigger(processingTime="0 seconds").start()
    )
    try:
        eventually(lambda: seen.numbers == list(range(10)), "the first records", WAIT_S)
        trial.send(topic, 10, 40)
        eventually(lambda: seen.numbers == list(range(40)), "more records", WAIT_S)
        with Admin(bootstrap_servers=trial.brokers) as admin:
            admin.create_partitions(topic, PARTITIONS + 1)
        with Producer(bootstrap_servers=trial.brokers) as producer:
            producer.send(topic, b'{"n": 40}', partition=PARTITIONS)
        eventually(lambda: seen.numbers == list(range(41)), "a record of the new partition", WAIT_S)
    finally:
        query.stop()
    progress = query.lastProgress
    assert progress is not None
    source = json.loads(json.dumps(progress, default=str))["sources"][0]
    return "with lag" if "@lag" in str(source.get("latestOffset")) else "without lag"


def limits(trial: Trial) -> str:
    topic = trial.topic(100)
    try:
        seen = collected(trial.stream(topic, maxOffsetsPerTrigger="20"), trial.new_folder())
    except Exception as error:
        if "option maxOffsetsPerTrigger needs Spark 4.2 or newer, and this is 4." in str(error):
            return "refused"
        raise
    assert seen.numbers == list(range(100))
    assert len(seen.batches) == 5
    return YES


def stream_write(trial: Trial) -> str:
    """Exactly once: the last batch is run again, since its commit is gone."""
    topic, copy, checkpoint = trial.topic(100), trial.topic(), trial.new_folder()

    def run() -> None:
        writer = trial.stream(topic).select("key", "value").writeStream.format("headrace")
        writer = writer.options(**{"kafka.bootstrap.servers": trial.brokers, "topic": copy})
        ended(writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start())

    run()
    trial.send(topic, 100, 150)
    run()
    forget_last_commit(checkpoint)
    run()
    assert trial.numbers_in(copy) == list(range(150))
    trial.send(topic, 150, 160)
    run()
    assert trial.numbers_in(copy) == list(range(160))
    return YES


def topic_made_again(trial: Trial) -> str:
    topic, checkpoint = trial.topic(100), trial.new_folder()
    collected(trial.stream(topic), checkpoint)
    delete_topic(trial.brokers, topic)
    trial.create(topic)
    trial.send(topic, 0, 200)
    with pytest.raises(Exception, match=f"topic {topic} was deleted and made again"):
        collected(trial.stream(topic), checkpoint)
    found = collected(trial.stream(topic, failOnDataLoss="false"), checkpoint)
    more = collected(trial.stream(topic, failOnDataLoss="false"), checkpoint)
    assert sorted([*found.numbers, *more.numbers]) == list(range(200))
    return YES


def loads(trial: Trial) -> str:
    """Into each kind of table, and Delta's and Iceberg's read with the log behind it."""
    for kind in ("parquet", "delta", "iceberg"):
        topic, path = trial.topic(60), trial.new_folder()
        _load(trial, topic, kind, path)
        trial.send(topic, 60, 90)
        if kind != "parquet":
            rows = trial.read(topic, history=path).collect()
            assert sorted(json.loads(row.value)["n"] for row in rows) == list(range(90)), kind
        _load(trial, topic, kind, path)
    return YES


def pipeline_file(trial: Trial) -> str:
    """`headrace pipeline run`, as a user runs it: records that cannot be parsed are dead letters."""
    topic, out, dead = trial.topic(50), trial.topic(), trial.topic()
    with Producer(bootstrap_servers=trial.brokers) as producer:
        producer.send(topic, b"no JSON")
    file = Path(trial.new_folder()).with_suffix(".sql")
    file.write_text(
        f"-- in numbers: feed {topic}\n--   json: n INT\n--   dead letters: {dead}\n"
        f"-- out: feed {out}\n-- trigger: available now\nSELECT n FROM numbers\n"
    )
    command = [sys.executable, "-m", "headrace.cli.main", "pipeline", "run", str(file), "--json"]
    done = subprocess.run([*command, "-b", trial.brokers], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert trial.numbers_in(out) == list(range(50))
    assert [each.value for each in whole_topic(trial.brokers, dead)] == [b"no JSON"]
    return YES


def _load(trial: Trial, topic: str, kind: str, path: str) -> None:
    stop = run_load(
        trial.spark,
        FeedLoad(topic, kind, path, trial.brokers),
        tell=lambda _: None,
        loaded=lambda _: None,
        should_stop=lambda: False,
    )
    assert stop.failure is None, stop.failure


def forget_last_commit(checkpoint: str) -> None:
    commits = [each for each in Path(checkpoint, "commits").iterdir() if each.name.isdecimal()]
    last = max(commits, key=lambda each: int(each.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


TRIALS: Final[dict[str, Callable[[Trial], str]]] = {
    each.__name__: each
    for each in (
        batch_write,
        batch_read,
        filters,
        sql_tables,
        stream_read,
        stream_from_latest,
        stream_that_runs,
        limits,
        stream_write,
        topic_made_again,
        loads,
        pipeline_file,
    )
}


def run(trials: Mapping[str, Callable[[Trial], str]], folder: Path, config: Mapping[str, str]) -> None:
    """One after the other in one session; a line of JSON for each."""
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **config,
    }
    with Cluster() as cluster:
        spark = spark_session("versions", master="local[2]", config=settings, tell=lambda _: None)
        trial = Trial(spark, cluster.bootstrap_servers, folder)
        for name, each in trials.items():
            since_s = time.monotonic()
            try:
                found = each(trial)
            except Exception as error:
                found = f"FAILED: {type(error).__name__}: {error}"
            took_s = round(time.monotonic() - since_s, 1)
            print(json.dumps({"trial": name, "found": found, "seconds": took_s}), flush=True)
        spark.stop()
