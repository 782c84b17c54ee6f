"""The sink in Spark: batch and streaming writes, read back by a client that knows nothing of Spark."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, PySparkException

from headrace.base.ids import TopicPartition
from headrace.clients import Consumer, ConsumerRecord
from headrace.testing import Cluster
from tests.spark.whole_topics import whole_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MakeTopic = Callable[..., str]


def records(cluster: Cluster, topic: str) -> list[ConsumerRecord]:
    """All of a topic, by partition and offset."""
    return whole_topic(cluster.bootstrap_servers, topic)


def save(rows: "DataFrame", cluster: Cluster, mode: str = "append", **options: str) -> None:
    writer = rows.write.format("headrace").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    writer.options(**options).mode(mode).save()


def test_a_batch_write_has_all_columns(
    spark: "SparkSession", cluster: Cluster, make_topic: MakeTopic
) -> None:
    topic = make_topic(3)
    rows = spark.sql(f"""
        SELECT '{topic}' AS topic, cast('k' AS binary) AS key, 'v' AS value, cast(2 AS int) AS partition,
               array(named_struct('key', 'h', 'value', cast('x' AS binary)),
                     named_struct('key', 'n', 'value', cast(NULL AS binary))) AS headers, 1 AS other
        UNION ALL SELECT '{topic}', NULL, NULL, NULL, NULL, 2
    """)
    save(rows, cluster)
    found = {record.value: record for record in records(cluster, topic)}
    assert len(found) == 2
    full = found[b"v"]
    assert (full.key, full.partition, list(full.headers)) == (b"k", 2, [("h", b"x"), ("n", None)])
    assert (found[None].key, list(found[None].headers)) == (None, [])


def test_many_rows_from_many_tasks(spark: "SparkSession", cluster: Cluster, make_topic: MakeTopic) -> None:
    topic = make_topic(3)
    save(
        spark.range(0, 60_000, 1, 4).selectExpr(
            "cast(id % 100 AS string) AS key", "cast(id AS string) AS value"
        ),
        cluster,
        topic=topic,
        **{"kafka.compression.type": "lz4"},
    )
    found = records(cluster, topic)
    assert sorted(int(record.value or b"") for record in found) == list(range(60_000))
    homes: dict[bytes, set[int]] = {}
    for record in found:
        homes.setdefault(record.key or b"", set()).add(record.partition)
    assert len(homes) == 100
    assert all(len(partitions) == 1 for partitions in homes.values())


@pytest.mark.parametrize(
    ("query", "options", "said"),
    [
        ("SELECT 1 AS id", {"topic": "t"}, "there is no column `value`"),
        ("SELECT 'x' AS value", {}, "give the option `topic`"),
        ("SELECT 'x' AS value, cast(NULL AS string) AS topic", {}, "null in the column `topic`"),
        ("SELECT 'x' AS value", {"topic": "t", "delivery": "once"}, "at_least_once or exactly_once"),
        ("SELECT 'x' AS value", {"topic": "t", "kafka.acks": "1"}, "leave the option out"),
        ("SELECT 'x' AS value", {"topic": "t", "topik": "t"}, "did you mean topic"),
    ],
)
def test_what_is_refused(
    spark: "SparkSession", cluster: Cluster, query: str, options: dict[str, str], said: str
) -> None:
    with pytest.raises(PySparkException, match=said):
        save(spark.sql(query), cluster, **options)


def test_a_topic_is_not_overwritten(spark: "SparkSession", cluster: Cluster, make_topic: MakeTopic) -> None:
    with pytest.raises(AnalysisException, match="append"):
        save(spark.sql("SELECT 'x' AS value"), cluster, "overwrite", topic=make_topic())


def test_a_streaming_write_fans_out_by_topic(
    spark: "SparkSession", cluster: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topics = [make_topic(2), make_topic(1)]
    folder = tmp_path / "in"
    folder.mkdir()

    def drop(name: str, numbers: range) -> None:
        lines = [json.dumps({"n": number, "to": topics[number % 2]}) for number in numbers]
        (folder / name).write_text("\n".join(lines))

    def run() -> Any:
        query = (
            spark.readStream.schema("n INT, to STRING")
            .json(str(folder))
            .selectExpr("to AS topic", "cast(n AS string) AS value")
            .writeStream.format("headrace")
            .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return query

    drop("a.json", range(100))
    run()
    drop("b.json", range(100, 150))
    run()
    for index, topic in enumerate(topics):
        found = sorted(int(record.value or b"") for record in records(cluster, topic))
        assert found == [number for number in range(150) if number % 2 == index]


def test_a_record_that_is_too_large_fails_the_query(
    spark: "SparkSession", cluster: Cluster, make_topic: MakeTopic
) -> None:
    topic = make_topic(1, {"max.message.bytes": "10000"})
    with pytest.raises(PySparkException, match=r"max\.message\.bytes"):
        save(spark.sql("SELECT repeat('x', 20000) AS value"), cluster, topic=topic)
    with Consumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        assert consumer.end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 0}
