"""Spark's own Kafka connector, on the JVM, as a second opinion: it reads and writes headrace, and our
source gives the same rows for the same options.

Both run in one session against one node, so whatever differs is ours.
"""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.clients import ConsumerRecord, Producer
from headrace.spark.data_source import HeadraceDataSource
from headrace.spark.option_values import OptionError
from headrace.spark.source_progress import source_metrics
from headrace.testing import Cluster
from tests.compat.prepare import UnavailableError, connector_libs
from tests.spark.conftest import MakeTopic
from tests.spark.whole_topics import whole_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

FORMATS = ("kafka", "headrace")
# What cannot be is asked for three times, by default a second apart.
SOON = {"fetchOffset.retryIntervalMs": "10"}
BEGIN_MS = 1_700_000_000_123
PARTITIONS = 3
PER_PARTITION = 40

Rows = list[dict[str, Any]]
Read = Callable[..., Rows]


@pytest.fixture(autouse=True)
def _connector(connector_jars: str) -> None:
    if not connector_jars:
        try:
            connector_libs()
        except UnavailableError as reason:
            pytest.skip(str(reason))


@pytest.fixture(scope="module")
def topic(cluster: Cluster) -> str:
    """Keys, values and headers of every kind; each partition begins a little later than the one before."""
    rng = random.Random(1)
    # The records' times are long past; none may be too old to be kept.
    cluster.create_topic("second-opinion", PARTITIONS, configs={"retention.ms": "-1"})
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for partition in range(PARTITIONS):
            for number in range(PER_PARTITION):
                producer.send(
                    "second-opinion",
                    None if number % 7 == 3 else rng.randbytes(number),
                    key=None if number % 5 == 2 else f"k{number}".encode(),
                    partition=partition,
                    timestamp_ms=BEGIN_MS + partition * 100 + number * 10,
                    headers=[("a", b"1"), ("a", None), ("ü", b"")][: number % 4],
                )
    return "second-opinion"


@pytest.fixture
def read(spark: "SparkSession", cluster: Cluster) -> Read:
    """All rows of a batch read, in order; the schema is part of the answer."""

    def rows(name: str, **options: str) -> Rows:
        found = _reading(spark.read.format(name), cluster, options).load()
        return _rows(found)

    return rows


def _reading(reader: Any, cluster: Cluster, options: dict[str, str]) -> Any:
    return reader.option("kafka.bootstrap.servers", cluster.bootstrap_servers).options(**options)


def _rows(frame: "DataFrame") -> Rows:
    schema = {"schema": frame.schema.simpleString()}
    rows = [row.asDict(recursive=True) for row in frame.collect()]
    return [schema, *sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))]


def _starts(*offsets: int) -> str:
    return json.dumps({"second-opinion": {str(number): offset for number, offset in enumerate(offsets)}})


def _at(*milliseconds: int) -> str:
    return _starts(*(BEGIN_MS + each for each in milliseconds))


OPTIONS: dict[str, dict[str, str]] = {
    "nothing but the topic": {},
    "with headers": {"includeHeaders": "true"},
    "offsets JSON": {"startingOffsets": _starts(5, -2, 39), "endingOffsets": _starts(20, -1, 40)},
    "nothing between": {"startingOffsets": _starts(40, 40, 40)},
    "earliest to latest": {"startingOffsets": "earliest", "endingOffsets": "latest"},
    "from a time": {"startingTimestamp": str(BEGIN_MS + 205)},
    "from a time, to a time": {
        "startingTimestamp": str(BEGIN_MS + 205),
        "endingTimestamp": str(BEGIN_MS + 300),
    },
    "times of each partition": {
        "startingOffsetsByTimestamp": _at(0, 150, 201),
        "endingOffsetsByTimestamp": _at(380, 10**9, 250),
    },
    "a time that nobody has reached": {
        "startingOffsetsByTimestamp": _at(0, 10**9, 0),
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "many small tasks": {"minPartitions": "8"},
    "tasks of a few rows": {"maxRecordsPerPartition": "7"},
}


@pytest.mark.parametrize("case", OPTIONS)
def test_the_same_rows(read: Read, cluster: Cluster, topic: str, case: str) -> None:
    """Ours as Spark would plan and read it, in this process: how rows get into a frame is shown by others."""
    given = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": topic, **OPTIONS[case]}
    theirs, ours = _timed(read("kafka", subscribe=topic, **OPTIONS[case])), _timed(_read_here(given))
    assert ours == theirs
    if not case.startswith("nothing"):
        assert len(theirs) > 1


def _read_here(given: dict[str, str]) -> Rows:
    source = HeadraceDataSource(given)
    schema = source.schema()
    reader = source.reader(schema)
    rows = [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]
    in_order = sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))
    return [{"schema": schema.simpleString()}, *in_order]


def _timed(rows: Rows) -> Rows:
    """With times as numbers: Spark's are of this machine's zone."""
    times = ({"timestamp": row["timestamp"].timestamp()} if "timestamp" in row else {} for row in rows)
    return [{**row, **time} for row, time in zip(rows, times, strict=True)]


@pytest.mark.parametrize(
    "selection", [{"subscribePattern": "second-op.*"}, {"assign": '{"second-opinion": [0, 2]}'}], ids=str
)
def test_the_same_topics_and_partitions(read: Read, topic: str, selection: dict[str, str]) -> None:
    theirs, ours = (read(name, **selection) for name in FORMATS)
    assert ours == theirs
    assert len(theirs) > PER_PARTITION


def test_a_start_that_does_not_exist_is_an_error_for_both(read: Read, topic: str) -> None:
    for name in FORMATS:
        with pytest.raises(Exception, match=r"(?i)timestamp"):
            read(name, subscribe=topic, startingOffsetsByTimestamp=_at(0, 10**9, 0), **SOON)


REFUSED: dict[str, dict[str, str]] = {
    "a batch from its end": {"startingOffsets": "latest"},
    "a partition of a batch from its end": {"startingOffsets": _starts(0, -1, 0)},
    "a batch to its beginning": {"endingOffsets": "earliest"},
    "a partition of a batch to its beginning": {"endingOffsets": _starts(1, -2, 1)},
    "a partition left out": {"startingOffsets": _starts(0, 0)},
    "a partition too many": {"startingOffsets": _starts(0, 0, 0, 0)},
    "a time left out": {"startingOffsetsByTimestamp": _at(0, 0)},
    "no JSON": {"startingOffsets": "first"},
    "a start behind its end": {"startingOffsets": _starts(9, 0, 0), "endingOffsets": _starts(8, 1, 1)},
    "two ways to choose": {"assign": '{"second-opinion": [0]}'},
    "no tasks": {"minPartitions": "0"},
    "another place to begin": {"kafka.auto.offset.reset": "earliest"},
    "a deserializer": {"kafka.value.deserializer": "x"},
    "commits of its own": {"kafka.enable.auto.commit": "true"},
    "an interceptor": {"kafka.interceptor.classes": "x"},
    "a strategy that there is not": {
        "startingOffsetsByTimestamp": _at(0, 0, 0),
        "startingOffsetsByTimestampStrategy": "x",
    },
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_connector_refuses_is_refused(read: Read, cluster: Cluster, topic: str, case: str) -> None:
    with pytest.raises(Exception, match=r"\S"):
        read("kafka", subscribe=topic, **SOON, **REFUSED[case])
    # What Spark would do with ours, in this process.
    given = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": topic}
    source = HeadraceDataSource({**given, **REFUSED[case]})
    with pytest.raises(OptionError):
        source.reader(source.schema()).partitions()


def test_log_append_time(read: Read, cluster: Cluster, make_topic: MakeTopic) -> None:
    stamped = make_topic(configs={"message.timestamp.type": "LogAppendTime"})
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(5):
            producer.send(stamped, b"x", timestamp_ms=number)
    theirs, ours = (read(name, subscribe=stamped) for name in FORMATS)
    assert ours == theirs
    assert [row["timestampType"] for row in ours[1:]] == [1] * 5


def test_streams_give_the_same_rows_and_offsets(
    spark: "SparkSession", cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    told: dict[str, tuple[Rows, list[Any]]] = {}
    behind: dict[str, tuple[str, dict[str, str]]] = {}
    for name in FORMATS:
        options = {"subscribe": topic, "startingOffsets": _starts(3, -2, 30), "maxOffsetsPerTrigger": "30"}
        stream = _reading(spark.readStream.format(name), cluster, options | {"includeHeaders": "true"}).load()
        out = tmp_path / name
        query = (
            stream.writeStream.format("parquet")
            .option("path", str(out))
            .option("checkpointLocation", str(tmp_path / f"{name}-checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        ends = [json.loads(each["sources"][0]["endOffset"]) for each in query.recentProgress]
        told[name] = _rows(spark.read.parquet(str(out))), ends
        behind[name] = _last_metrics(query)
    assert told["headrace"][0] == told["kafka"][0]
    assert len(told["kafka"][0]) == 1 + 37 + 40 + 10
    assert {name: each for name, each in told["headrace"][1][-1].items() if not name.startswith("@")} == (
        told["kafka"][1][-1]
    )

    assert behind["headrace"][1] == behind["kafka"][1]
    assert behind["headrace"][0] == behind["kafka"][0].replace("KafkaV2", "headrace")


def _last_metrics(query: Any) -> tuple[str, dict[str, str]]:
    """Description and metrics after the last batch, wherever the source can put them."""
    progress = json.loads(query.lastProgress.json)
    if own := source_metrics(progress):
        return own[0]
    (source,) = progress["sources"]
    return source["description"], source["metrics"]


def test_a_query_goes_on_from_the_connectors_checkpoint(
    spark: "SparkSession", cluster: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    moved = make_topic(2)
    for name, values in (("kafka", [b"1", b"2", b"3"]), ("headrace", [b"4", b"5"])):
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for value in values:
                producer.send(moved, value)
        options = {"subscribe": moved, "startingOffsets": "earliest"}
        query = (
            _reading(spark.readStream.format(name), cluster, options)
            .load()
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "rows"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    rows = _rows(spark.read.parquet(str(tmp_path / "rows")))[1:]
    assert sorted(bytes(row["value"]) for row in rows) == [b"1", b"2", b"3", b"4", b"5"]


def test_what_either_writes_is_the_same(
    spark: "SparkSession", cluster: Cluster, make_topic: MakeTopic
) -> None:
    """Same keys, values and headers, and each key in the same partition."""
    rows = [
        (
            f"k{number}".encode() if number % 3 else None,
            None if number % 4 == 1 else b"v" * number,
            [("h", b"1"), ("n", None)][: number % 3] or None,
        )
        for number in range(60)
    ]
    schema = "key binary, value binary, headers array<struct<key string, value binary>>"
    written: dict[str, list[ConsumerRecord]] = {}
    for name in FORMATS:
        into = make_topic(PARTITIONS)
        options = {"topic": into, "includeHeaders": "true"}
        frame = spark.createDataFrame(rows, schema)
        _reading(frame.write.format(name), cluster, options).mode("append").save()
        written[name] = _consumed(cluster, into, len(rows))
    theirs, ours = (sorted(map(_content, written[name])) for name in FORMATS)
    assert ours == theirs
    places = [{each.key: each.partition for each in written[name] if each.key} for name in FORMATS]
    assert places[0] == places[1]


def test_each_streams_into_headrace(
    spark: "SparkSession", cluster: Cluster, topic: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """The one reads what the other wrote, from start to end."""
    contents = []
    for source, sink in (FORMATS, FORMATS[::-1]):
        into = make_topic(2)
        stream = _reading(
            spark.readStream.format(source), cluster, {"subscribe": topic, "startingOffsets": "earliest"}
        ).load()
        (
            _reading(stream.select("key", "value").writeStream.format(sink), cluster, {"topic": into})
            .option("checkpointLocation", str(tmp_path / sink))
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        )
        contents.append(sorted(map(_content, _consumed(cluster, into, PARTITIONS * PER_PARTITION))))
    assert contents[0] == contents[1]


def _content(record: ConsumerRecord) -> str:
    return repr((record.key, record.value, list(record.headers)))


def _consumed(cluster: Cluster, topic: str, count: int) -> list[ConsumerRecord]:
    """All that a topic has, which must be `count`."""
    found = whole_topic(cluster.bootstrap_servers, topic)
    assert len(found) == count
    return found
