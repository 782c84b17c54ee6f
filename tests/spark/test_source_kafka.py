"""The source on Apache Kafka: transactions and compacted logs, and what headrace's own node has too."""

import uuid
from collections.abc import Iterator
from contextlib import closing
from itertools import count

import confluent_kafka
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from pyspark.sql.streaming.datasource import ReadAllAvailable

from headrace.base.ids import TopicPartition
from headrace.clients import Admin, OffsetAndMetadata
from headrace.spark import range_fetcher
from headrace.spark.batch_reader import planned_ranges
from headrace.spark.columns import spark_schema
from headrace.spark.data_loss import LostDataError
from headrace.spark.filters import PushedFilters
from headrace.spark.offsets import partition_offsets
from headrace.spark.options import ReadOptions
from headrace.spark.ranges import OffsetRange
from headrace.spark.stream_reader import HeadraceStreamReader
from tests.compat.brokers import NEVER_FENCED, ApacheKafkaBroker
from tests.compat.clients.face import eventually
from tests.compat.prepare import UnavailableError
from tests.spark.source_topics import (
    FIRST_MS,
    delete_records,
    fill,
    numbered,
    options_for,
    rows_of,
    values_of,
)
from tests.spark.whole_topics import await_markers_on

pytestmark = pytest.mark.java

COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.001",
    "max.compaction.lag.ms": "100",
}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One node of Apache Kafka, with a cleaner that does not wait."""
    settings = {"log.cleaner.backoff.ms": "100"} | NEVER_FENCED
    try:
        with ApacheKafkaBroker(tmp_path_factory.mktemp("kafka") / "data", settings) as broker:
            broker.start()
            yield broker.bootstrap
    except UnavailableError as reason:
        pytest.skip(str(reason))


def make_topic(bootstrap: str, partitions: int = 1, **settings: str) -> str:
    name = f"t-{uuid.uuid4().hex[:12]}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        named = {key.replace("_", "."): value for key, value in settings.items()}
        admin.create_topic(name, partitions=partitions, replication_factor=1, configs=named)
        # Metadata may be ahead of the leaders. One that refuses a producer's first batch and takes its
        # second, sent right behind it, would have them in the wrong order.
        admin.list_offsets(dict.fromkeys((TopicPartition(name, each) for each in range(partitions)), 0))
    return name


def planned(options: ReadOptions) -> list[OffsetRange]:
    with closing(partition_offsets(options)) as asked:
        return planned_ranges(options, PushedFilters(), asked)


def transactions(bootstrap: str) -> confluent_kafka.Producer:
    name = f"x-{uuid.uuid4().hex[:8]}"
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(60)
    return producer


def write(producer: confluent_kafka.Producer, topic: str, values: list[bytes]) -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, b"k", partition=0)
    producer.flush(60)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_rows_of_apache_kafka(kafka: str, codec: str) -> None:
    topic = make_topic(kafka, 2)
    headers = [("h", b"1"), ("n", None)]
    fill(kafka, topic, numbered(500), headers=headers, **{"compression.type": codec})
    options = options_for(kafka, topic, includeHeaders="true")
    assert planned(options) == [OffsetRange(topic, 0, 0, 500), OffsetRange(topic, 1, 0, 0)]
    rows = rows_of(OffsetRange(topic, 0, 100, 400), options)
    assert [row["value"] for row in rows] == numbered(300, 100)
    assert [row["offset"] for row in rows] == list(range(100, 400))
    assert rows[0]["headers"] == [{"key": name, "value": value} for name, value in headers]


def test_transactions(kafka: str) -> None:
    topic = make_topic(kafka)
    producer, other = transactions(kafka), transactions(kafka)
    write(producer, topic, numbered(3))
    producer.commit_transaction(60)  # offsets 0 to 2, its marker is 3
    write(producer, topic, numbered(4, 100))
    producer.abort_transaction(60)  # 4 to 7, marker 8
    write(producer, topic, numbered(2, 3))
    producer.commit_transaction(60)  # 9 and 10, marker 11
    await_markers_on(kafka, topic)  # of this one others would not wait
    write(other, topic, numbered(2, 200))  # 12 and 13, still open
    committed = options_for(kafka, topic, **{"kafka.isolation.level": "read_committed"})
    everything = options_for(kafka, topic)
    assert planned(committed) == [OffsetRange(topic, 0, 0, 12)]
    assert planned(everything) == [OffsetRange(topic, 0, 0, 14)]
    assert values_of(OffsetRange(topic, 0, 0, 12), committed) == numbered(5)
    # A range of nothing but markers and aborted records has no rows, and ends all the same.
    assert values_of(OffsetRange(topic, 0, 3, 9), committed) == []
    assert values_of(OffsetRange(topic, 0, 11, 12), committed) == []
    # A range that begins within an aborted transaction.
    assert values_of(OffsetRange(topic, 0, 6, 12), committed) == numbered(2, 3)
    assert values_of(OffsetRange(topic, 0, 0, 14), everything) == [
        *numbered(3),
        *numbered(4, 100),
        *numbered(2, 3),
        *numbered(2, 200),
    ]
    other.abort_transaction(60)


def test_a_compacted_log_has_gaps(kafka: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_fetcher, "_POLL_MS", 50)
    settings = {name.replace(".", "_"): value for name, value in COMPACTED.items()}
    topic = make_topic(kafka, 1, **settings)
    minutes = count(FIRST_MS, 60_000)  # so every batch is late enough for a segment of its own
    for start in (0, 100, 200):
        fill(kafka, topic, numbered(100, start), key=b"same", first_ms=next(minutes), step_ms=0)
    options = options_for(kafka, topic)

    def is_compacted() -> bool:
        fill(kafka, topic, [b"last"], key=b"other", first_ms=next(minutes))
        (whole,) = planned(options)
        return numbered(1, 299)[0] in values_of(whole, options) and len(values_of(whole, options)) < 250

    eventually(is_compacted, "gaps")
    (whole,) = planned(options)
    offsets = [row["offset"] for row in rows_of(whole, options)]
    assert offsets == sorted(set(offsets))
    assert len(offsets) < whole.size
    # A range that lies in a gap altogether has no rows, and does not wait for any.
    gap = next(number for number in range(300) if number not in offsets)
    assert values_of(OffsetRange(topic, 0, gap, gap + 1), options) == []


def test_deleted_records(kafka: str) -> None:
    topic = make_topic(kafka)
    fill(kafka, topic, numbered(10))
    delete_records(kafka, topic, 0, 6)
    assert planned(options_for(kafka, topic)) == [OffsetRange(topic, 0, 6, 10)]
    with pytest.raises(LostDataError, match="begins at offset 6 now"):
        values_of(OffsetRange(topic, 0, 2, 9), options_for(kafka, topic))
    tolerant = options_for(kafka, topic, failOnDataLoss="false")
    assert values_of(OffsetRange(topic, 0, 2, 9), tolerant) == numbered(3, 6)


def test_a_stream_shows_its_progress_to_kafkas_tools(kafka: str) -> None:
    topic, group = make_topic(kafka), f"g-{uuid.uuid4().hex[:8]}"
    fill(kafka, topic, numbered(10))
    options = options_for(
        kafka, topic, streaming=True, startingOffsets="earliest", **{"kafka.group.id": group}
    )
    reader = HeadraceStreamReader(options, spark_schema(options.columns))
    initial = reader.initialOffset()
    end = reader.latestOffset(initial, ReadAllAvailable())
    assert end[topic] == {"0": 10}
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    # A thread of its own commits, and Kafka makes the topic of groups' offsets when one is first asked for.
    expected = {TopicPartition(topic, 0): OffsetAndMetadata(10)}
    with Admin(bootstrap_servers=kafka) as own:
        eventually(lambda: own.group_offsets(group) == expected, "the progress")
    reader.stop()
    admin = AdminClient({"bootstrap.servers": kafka})
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    (found,) = asked[group].result().topic_partitions
    assert (found.topic, found.partition, found.offset) == (topic, 0, 10)
