"""Rows on their way through the sink, without Spark: grouping, sizes, checks, and a task's message."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from headrace.base.ids import TopicPartition
from headrace.clients import Consumer, Producer
from headrace.clients.errors import ClientError
from headrace.spark.options import WriteOptions
from headrace.spark.sink import SinkError
from headrace.spark.sink.columns import WriteColumns, check_columns
from headrace.spark.sink.commit_message import TaskIdentity
from headrace.spark.sink.producers import lent_producer, producer_settings
from headrace.spark.sink.rows import KEYLESS_PIECE_BYTES, PIECE_BYTES, SMALL_BYTES, pieces
from headrace.spark.sink.writers import AtLeastOnce, delivery_strategy
from headrace.testing import Cluster

TASK = TaskIdentity("query", 7, 0, 0)


def schema(**fields: str) -> StructType:
    kinds: dict[str, Any] = {"headers": _HEADERS}
    listed = [
        {"name": name, "type": kinds.get(kind, kind), "nullable": True, "metadata": {}}
        for name, kind in fields.items()
    ]
    return StructType.fromJson({"type": "struct", "fields": listed})


_HEADERS = {
    "type": "array",
    "containsNull": True,
    "elementType": {
        "type": "struct",
        "fields": [
            {"name": "key", "type": "string", "nullable": True, "metadata": {}},
            {"name": "value", "type": "binary", "nullable": True, "metadata": {}},
        ],
    },
}


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


class TestColumns:
    def test_all_of_them(self) -> None:
        found = check_columns(
            schema(topic="string", key="binary", value="string", headers="headers", partition="integer"), None
        )
        assert found == WriteColumns(("key", "value", "headers", "partition"), has_topic=True)

    def test_the_option_topic_overrides_the_column(self) -> None:
        assert check_columns(schema(topic="integer", value="string"), "t") == WriteColumns(("value",), False)

    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            ({"key": "string"}, "no column `value`"),
            ({"Value": "string"}, "there is `Value`"),
            ({"value": "long", "topic": "string"}, "column `value` has type bigint"),
            ({"value": "string", "key": "integer", "topic": "string"}, "cast\\(key AS string\\)"),
            ({"value": "string", "topic": "integer"}, "column `topic` has type int"),
            ({"value": "string"}, "give the option `topic`, or a column `topic`"),
            ({"value": "string", "topics": "string"}, "there is `topics`"),
            ({"value": "string", "topic": "string", "partition": "long"}, "cast\\(partition AS int\\)"),
            ({"value": "string", "topic": "string", "headers": "string"}, "array<struct<key: string"),
        ],
    )
    def test_refused(self, fields: dict[str, str], said: str) -> None:
        with pytest.raises(SinkError, match=said):
            check_columns(schema(**fields), None)


class TestPieces:
    def test_topics_keep_the_order_of_their_rows(self) -> None:
        topics = ["b", "a", "b", "c", "a", "b"]
        rows = batch(value=[b"%d" % n for n in range(6)], topic=topics)
        found = {topic: piece.column("value").to_pylist() for topic, piece in by_topic([rows])}
        assert found == {"b": [b"0", b"2", b"5"], "a": [b"1", b"4"], "c": [b"3"]}

    def test_only_what_is_written_goes_on(self) -> None:
        rows = batch(other=[1], value=["x"], topic=["t"])
        [(_, piece)] = by_topic([rows])
        assert piece.schema.names == ["value"]

    def test_a_null_topic_is_refused(self) -> None:
        with pytest.raises(SinkError, match="1 of 2 rows have null in the column `topic`"):
            list(by_topic([batch(value=["x", "y"], topic=["t", None])]))

    @pytest.mark.parametrize(("has_topic", "limit"), [(True, PIECE_BYTES), (False, SMALL_BYTES)])
    def test_small_batches_are_put_together(self, has_topic: bool, limit: int) -> None:
        small = [batch(key=[b"k"] * 100, value=[b"v" * 100] * 100, topic=["t"] * 100)] * 1_000
        columns = WriteColumns(("key", "value"), has_topic)
        sizes = [rows.num_rows for _, rows in pieces(small, columns, "t")]
        assert sum(sizes) == 100_000
        assert len(sizes) <= 100_000 * 110 // limit + 1

    @pytest.mark.parametrize(
        ("names", "limit"), [(("key", "value"), PIECE_BYTES), (("value",), KEYLESS_PIECE_BYTES)]
    )
    def test_large_batches_are_cut(self, names: tuple[str, ...], limit: int) -> None:
        large = batch(key=[b"k"] * 2_000, value=[b"v" * 10_000] * 2_000)
        found = [rows for _, rows in pieces([large], WriteColumns(names, False), "t")]
        assert sum(rows.num_rows for rows in found) == 2_000
        assert max(rows.nbytes for rows in found) <= limit

    def test_order_stays_with_small_and_large_ones(self) -> None:
        sizes = [10, 1_000_000, 10, 10, 3_000_000, 10]
        mixed = [batch(key=[b"k"], value=[b"%d" % at + b"x" * size]) for at, size in enumerate(sizes)]
        found = [
            value[:1]
            for _, rows in pieces(mixed, WriteColumns(("key", "value"), False), "t")
            for value in rows.column("value").to_pylist()
        ]
        assert found == [b"0", b"1", b"2", b"3", b"4", b"5"]


def by_topic(batches: list[pa.RecordBatch]) -> Iterator[tuple[str, pa.RecordBatch]]:
    return pieces(batches, WriteColumns(("value",), has_topic=True), None)


class TestAtLeastOnce:
    def test_the_receipt_says_what_was_written(self, cluster: Cluster, make_topic: Any) -> None:
        first, second = make_topic(3), make_topic(1)
        rows = batch(
            topic=[first] * 300 + [second] * 10,
            partition=pa.array([0, 1, 2] * 100 + [None] * 10, pa.int32()),
            value=[str(n) for n in range(310)],
        )
        writer = strategy(cluster, ("value", "partition"), None)
        message = writer.write(iter([rows, rows.slice(0, 0), rows.slice(0, 3)]), TASK)
        assert message.task == TASK
        assert message.count == 313
        counts = {each: own.count for each, own in message.written.items()}
        assert counts == {**{TopicPartition(first, n): 101 for n in range(3)}, TopicPartition(second, 0): 10}
        assert {own.last_offset for own in message.written.values()} == {100, 9}
        assert end_offsets(cluster, counts) == counts

    def test_records_batches_go_on_from_one_batch_of_spark_to_the_next(
        self, cluster: Cluster, make_topic: Any
    ) -> None:
        topic = make_topic(3)
        count, each = 60, 2_000
        batches = [
            batch(
                key=[b"%d" % n for n in range(at, at + each)],
                value=[b"%06d" % n for n in range(at, at + each)],
            )
            for at in range(0, count * each, each)
        ]
        message = strategy(cluster, ("key", "value"), topic).write(iter(batches), TASK)
        assert message.count == count * each
        with Consumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign(list(message.written))
            found: dict[int, list[bytes | None]] = {}
            while sum(map(len, found.values())) < count * each:
                for record in consumer.poll(5.0):
                    found.setdefault(record.partition, []).append(record.value)
        assert sorted(value for own in found.values() for value in own if value) == [
            b"%06d" % n for n in range(count * each)
        ]
        # Each partition's rows are in Spark's order, whichever batch they came with.
        assert all(own == sorted(own, key=lambda value: int(value or b"")) for own in found.values())

    def test_a_batch_that_is_too_large_for_the_topic_is_counted_in_full(
        self, cluster: Cluster, make_topic: Any
    ) -> None:
        topic = make_topic(1, {"max.message.bytes": "20000"})
        rows = batch(value=[b"%05d" % n + b"x" * 500 for n in range(1_000)])
        message = strategy(cluster, ("value",), topic).write(iter([rows]), TASK)
        assert message.written[TopicPartition(topic, 0)].count == 1_000
        assert message.written[TopicPartition(topic, 0)].last_offset == 999

    def test_a_record_that_nobody_takes_fails_the_task(self, cluster: Cluster, make_topic: Any) -> None:
        topic = make_topic(1, {"max.message.bytes": "20000"})
        rows = batch(value=[b"x", b"x" * 50_000, b"x"])
        with pytest.raises(ClientError, match=r"raise the topic's max\.message\.bytes"):
            strategy(cluster, ("value",), topic).write(iter([rows]), TASK)

    @pytest.mark.parametrize(
        ("partition", "said"), [(3, "has no partition 3: it has 0 to 2"), (-1, "from 0")]
    )
    def test_a_partition_out_of_range(
        self, cluster: Cluster, make_topic: Any, partition: int, said: str
    ) -> None:
        rows = batch(value=["x"], partition=pa.array([partition], pa.int32()))
        with pytest.raises(SinkError, match=said):
            strategy(cluster, ("value", "partition"), make_topic(3)).write(iter([rows]), TASK)

    def test_rows_without_a_key_are_spread(self, cluster: Cluster, make_topic: Any) -> None:
        rows = batch(value=[b"x" * 1_000] * 20_000)
        message = strategy(cluster, ("value",), make_topic(4)).write(iter([rows]), TASK)
        assert len(message.written) > 1
        assert message.count == 20_000

    def test_a_producer_serves_the_next_task_unless_one_failed(self, cluster: Cluster) -> None:
        settings = producer_settings({"bootstrap.servers": cluster.bootstrap_servers, "client.id": "own"})
        with lent_producer(settings) as first:
            pass
        with lent_producer(settings) as second:
            assert second is first
            with lent_producer(settings) as other:
                assert other is not first
        lost = failed_task(settings)
        with lent_producer(settings) as fourth:
            assert fourth is not lost


def failed_task(settings: dict[str, str]) -> Producer:
    try:
        with lent_producer(settings) as producer:
            raise RuntimeError
    except RuntimeError:
        return producer


@pytest.mark.parametrize("contradiction", [{"acks": "1"}, {"enable.idempotence": "false"}])
def test_settings_that_would_lose_records_are_refused(contradiction: dict[str, str]) -> None:
    with pytest.raises(SinkError, match="leave the option out"):
        producer_settings({"bootstrap.servers": "h:1", **contradiction})


def test_a_delivery_that_there_is_not() -> None:
    options = WriteOptions({"bootstrap.servers": "h:1"}, topic="t", delivery="some")
    with pytest.raises(SinkError, match="at_least_once or exactly_once"):
        delivery_strategy(options, WriteColumns(("value",), has_topic=False), "at_least_once")


def strategy(cluster: Cluster, names: tuple[str, ...], topic: str | None) -> AtLeastOnce:
    options = WriteOptions({"bootstrap.servers": cluster.bootstrap_servers}, topic=topic)
    return AtLeastOnce(options, WriteColumns(names, has_topic=topic is None))


def end_offsets(cluster: Cluster, partitions: Any) -> dict[TopicPartition, int]:
    with Consumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        return consumer.end_offsets(partitions)
