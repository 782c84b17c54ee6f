"""Records of aborted transactions, written by librdkafka to Apache Kafka, as rows and as columns."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer as TransactionalProducer

from headrace.base.ids import TopicPartition
from headrace.clients import Admin, Consumer
from tests.compat.stock_kafka import running_kafka
from tests.spark.whole_topics import await_markers_on

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_kafka(tmp_path_factory) as bootstrap:
        yield bootstrap


@pytest.fixture(scope="module")
def topic(bootstrap: str) -> str:
    """Ten transactions of ten records; every third is aborted."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(name, partitions=1)
    producer = TransactionalProducer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(60)
    for number in range(10):
        producer.begin_transaction()
        for within in range(10):
            producer.produce(name, b"%d" % (10 * number + within))
        producer.flush()
        if number % 3:
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)
    await_markers_on(bootstrap, name)
    return name


COMMITTED = [number for number in range(100) if number // 10 % 3]


@pytest.mark.parametrize(
    ("level", "expected"), [("read_committed", COMMITTED), ("read_uncommitted", range(100))]
)
@pytest.mark.parametrize("fetch_bytes", [1 << 20, 300])
def test_what_is_seen(bootstrap: str, topic: str, level: str, expected: Any, fetch_bytes: int) -> None:
    place = TopicPartition(topic, 0)
    options = {"isolation_level": level, "auto_offset_reset": "earliest"}
    with Consumer(bootstrap_servers=bootstrap, max_partition_fetch_bytes=fetch_bytes, **options) as consumer:
        end = consumer.end_offsets([place])[place]
        consumer.assign([place])
        rows: list[int] = []
        while consumer.positions().get(place, 0) < end:
            rows += [int(row.value) for row in consumer.poll(0.2)]
        assert rows == list(expected)
        consumer.seek_to_beginning(place)
        columns: list[int] = []
        while consumer.position(place) < end:
            columns += [int(value) for value in consumer.poll_arrow(0.2)["value"].to_pylist()]
        assert columns == list(expected)
