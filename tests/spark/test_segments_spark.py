"""Direct reading as a Spark user has it: batch, stream, a path alone. Stores are in `test_source_docs`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 (as everybody calls it)

from headrace.clients import Producer
from headrace.spark import register
from headrace.testing import Cluster
from tests.spark.conftest import MakeTopic
from tests.spark.test_segments_live import copied, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def frame(spark: "SparkSession", **options: str) -> "DataFrame":
    register(spark)
    named = {name.replace("__", "."): value for name, value in options.items()}
    return spark.read.format("headrace").options(includeHeaders="true", **named).load()


def rows(found: "DataFrame") -> list[Any]:
    return sorted(found.collect(), key=lambda row: (row["partition"], row["offset"]))


def test_direct_reads_give_the_rows_that_fetching_gives(
    spark: "SparkSession", cluster: Cluster, make_topic: MakeTopic
) -> None:
    topic = make_topic(2, {"segment.bytes": "1048576"})
    write(cluster.bootstrap_servers, topic, 200, partitions=2)
    asked = {"kafka__bootstrap__servers": cluster.bootstrap_servers, "subscribe": topic}
    fetched = frame(spark, **asked)
    direct = frame(spark, **asked, read__mode="segments", minPartitions="5")
    assert direct.rdd.getNumPartitions() > 2, "partitions of the topic are cut"
    assert direct.schema == fetched.schema
    assert rows(direct) == rows(fetched)
    late = F.col("offset") >= 150
    assert rows(direct.where(late)) == rows(fetched.where(late))


def test_a_path_is_enough(
    spark: "SparkSession", cluster: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    write(cluster.bootstrap_servers, topic, 50)
    copied(cluster, topic, tmp_path)
    found = rows(frame(spark, path=str(tmp_path)))
    assert [row["offset"] for row in found] == list(range(250))
    assert {row["topic"] for row in found} == {topic}
    assert frame(spark, path=str(tmp_path), columns="headers,value").columns == ["headers", "value"]


def test_a_stream_follows_the_broker_and_reads_its_files(
    spark: "SparkSession", cluster: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    register(spark)
    topic = make_topic()
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(100):
            producer.send(topic, b"%d" % number)
        producer.flush()
    query = (
        spark.readStream.format("headrace")
        .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("read.mode", "segments")
        .option("maxOffsetsPerTrigger", "60")
        .load()
        .select("offset")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    query.awaitTermination()
    found = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(row["offset"] for row in found) == list(range(100))
