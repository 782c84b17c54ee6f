"""The source in Spark itself: rows and types of batch reads, and streams that fail, stop and go on."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.functions import col, lit, timestamp_millis

from headrace.base.ids import TopicPartition
from headrace.clients import Admin
from headrace.testing import Cluster
from tests.spark.conftest import MakeTopic
from tests.spark.source_topics import FIRST_MS, delete_records, fill, numbered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.timeout(300)


def load(spark: "SparkSession", cluster: Cluster, topic: str, **options: str) -> "DataFrame":
    reader = spark.read.format("headrace").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    return reader.option("subscribe", topic).options(**options).load()


def values(frame: "DataFrame") -> list[bytes]:
    return sorted(bytes(row.value) for row in frame.select("value").collect())


class Stream:
    """A query with its checkpoint and its output, run to its end again and again."""

    def __init__(
        self,
        spark: "SparkSession",
        cluster: Cluster,
        topic: str,
        folder: Path,
        *,
        name: str = "headrace",
        **options: str,
    ) -> None:
        self._reader = (
            spark.readStream.format(name)
            .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
            .option("subscribe", topic)
            .options(**options)
        )
        self._folder = folder
        self.batches: list[list[bytes]] = []
        self.fails = False

    def run(self) -> list[dict[str, Any]]:
        """Run with availableNow; returns the progress of its batches."""
        query = (
            self._reader.load()
            .writeStream.foreachBatch(self._take)
            .option("checkpointLocation", str(self._folder))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [json.loads(each.json) for each in query.recentProgress]

    def _take(self, frame: "DataFrame", _batch_id: int) -> None:
        self.batches.append(values(frame))
        if self.fails:
            raise RuntimeError("the sink is down")


def test_a_batch_read(spark: "SparkSession", cluster: Cluster, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    fill(cluster.bootstrap_servers, topic, [b"v", None], headers=[("h", b"1")])
    fill(cluster.bootstrap_servers, topic, numbered(5), partition=1, key=None)
    frame = load(spark, cluster, topic, includeHeaders="true")
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    first = frame.where("partition = 0").orderBy("offset").collect()
    assert [(row.key, row.value, row.offset) for row in first] == [(b"k", b"v", 0), (b"k", None, 1)]
    assert [(each.key, each.value) for each in first[0].headers] == [("h", b"1")]
    assert first[0].timestamp.timestamp() * 1000 == FIRST_MS
    second = frame.where("partition = 1").collect()
    assert [(row.key, row.headers) for row in second] == [(None, None)] * 5


def test_filters_reach_the_source(spark: "SparkSession", cluster: Cluster, make_topic: MakeTopic) -> None:
    topic = make_topic(3)
    for partition in range(3):
        fill(cluster.bootstrap_servers, topic, numbered(20, partition * 100), partition=partition)
    frame = load(spark, cluster, topic, minPartitions="6")
    assert frame.rdd.getNumPartitions() == 6
    wanted = frame.where("partition = 1 AND offset >= 5 AND offset < 9")
    assert values(wanted) == numbered(4, 105)
    assert wanted.rdd.getNumPartitions() < 6
    late = timestamp_millis(lit(FIRST_MS + 18_000))
    assert values(frame.where(col("timestamp") >= late)) == sorted(
        [*numbered(2, 18), *numbered(2, 118), *numbered(2, 218)]
    )
    assert values(frame.where(col("timestamp") < late).where("topic <> 'x'")) == sorted(
        [*numbered(18), *numbered(18, 100), *numbered(18, 200)]
    )


def test_filters_are_seen_in_the_plan(
    spark: "SparkSession", cluster: Cluster, make_topic: MakeTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    late = timestamp_millis(lit(FIRST_MS))
    wanted = load(spark, cluster, make_topic()).where("offset >= 5").where(col("timestamp") >= late)
    wanted.explain("formatted")
    plan = capsys.readouterr().out
    (pushed,) = [line for line in plan.splitlines() if "PushedFilters" in line]
    assert "GreaterThanOrEqual(offset,5)" in pushed
    (left,) = [line for line in plan.splitlines() if line.startswith("Condition : ")]
    assert "timestamp" in left  # it narrows what is fetched, and Spark looks at it again
    assert "offset" not in left


@pytest.fixture
def drop(spark: "SparkSession") -> Iterator[Callable[[str], None]]:
    """Take a table or view away when the test is over."""
    made: list[str] = []
    yield made.append
    for each in reversed(made):
        spark.sql(f"DROP {each}")


def test_a_table_of_the_catalogue(
    spark: "SparkSession", cluster: Cluster, make_topic: MakeTopic, drop: Callable[[str], None]
) -> None:
    topic, other = make_topic(), make_topic()
    fill(cluster.bootstrap_servers, topic, numbered(5))
    fill(cluster.bootstrap_servers, other, numbered(2, 7))
    options = f"OPTIONS (`kafka.bootstrap.servers` '{cluster.bootstrap_servers}', subscribe '{topic}')"
    spark.sql(f"CREATE TABLE tabled USING headrace {options}")
    drop("TABLE tabled")
    assert values(spark.table("tabled")) == numbered(5)
    assert values(spark.sql("SELECT * FROM tabled WHERE offset > 2")) == numbered(2, 3)
    assert values(spark.sql(f"SELECT * FROM tabled WITH (subscribe = '{other}')")) == numbered(2, 7)
    spark.sql("CREATE VIEW viewed AS SELECT value FROM tabled WHERE offset < 2")
    drop("VIEW viewed")
    assert values(spark.table("viewed")) == numbered(2)
    spark.sql(f"CREATE TEMPORARY VIEW passing USING headrace {options}")
    drop("VIEW passing")
    assert values(spark.table("passing")) == numbered(5)
    said = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": topic}
    assert values(spark.catalog.createTable("listed", source="headrace", **said)) == numbered(5)
    drop("TABLE listed")
    assert {"tabled", "viewed", "listed"} <= {each.name for each in spark.catalog.listTables()}
    assert [each.name for each in spark.catalog.listColumns("listed")][:2] == ["key", "value"]


def test_without_pushdown_spark_filters(
    spark: "SparkSession", cluster: Cluster, make_topic: MakeTopic
) -> None:
    topic, setting = make_topic(), "spark.sql.python.filterPushdown.enabled"
    fill(cluster.bootstrap_servers, topic, numbered(5))
    before = spark.conf.get(setting)
    spark.conf.set(setting, "false")
    try:
        assert values(load(spark, cluster, topic).where("offset > 2")) == numbered(2, 3)
    finally:
        spark.conf.set(setting, str(before))


def test_an_empty_topic_and_chosen_columns(
    spark: "SparkSession", cluster: Cluster, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    assert load(spark, cluster, topic).count() == 0
    fill(cluster.bootstrap_servers, topic, numbered(3))
    frame = load(spark, cluster, topic, columns="value", maxRecordsPerPartition="1")
    assert frame.columns == ["value"]
    assert frame.rdd.getNumPartitions() == 3
    assert values(frame) == numbered(3)


def test_wrong_options_are_told(spark: "SparkSession", cluster: Cluster, make_topic: MakeTopic) -> None:
    with pytest.raises(Exception, match="did you mean startingOffsets"):
        load(spark, cluster, make_topic(), startingOffset="earliest")


def test_a_failed_first_batch_is_repeated_as_it_was(
    spark: "SparkSession", cluster: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    fill(cluster.bootstrap_servers, topic, numbered(5))
    stream = Stream(spark, cluster, topic, tmp_path)  # from latest, the default
    stream.fails = True
    with pytest.raises(StreamingQueryException, match="the sink is down"):
        stream.run()
    fill(cluster.bootstrap_servers, topic, numbered(3, 5))
    stream.fails = False
    stream.run()
    # The first batch was planned when five records were there: it began and ended behind them.
    assert stream.batches[:2] == [[], []]
    assert [each for batch in stream.batches for each in batch] == numbered(3, 5)


def test_a_stream_goes_on_where_it_was(
    spark: "SparkSession", cluster: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, group = make_topic(), f"shown-{make_topic()}"
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "6", "kafka.group.id": group}
    fill(cluster.bootstrap_servers, topic, numbered(10))
    stream = Stream(spark, cluster, topic, tmp_path, **options)
    progress = stream.run()
    assert [len(batch) for batch in stream.batches] == [6, 4]
    (source,) = progress[0]["sources"]
    assert source["endOffset"][topic] == {"0": 6}
    assert (source["latestOffset"][topic], source["latestOffset"]["@lag"]) == ({"0": 10}, {topic: {"0": 4}})
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        # No commit comes for the last batch of availableNow, and yet the group has it.
        assert admin.group_offsets(group)[TopicPartition(topic, 0)].offset == 10
        admin.create_partitions(topic, 2)
    fill(cluster.bootstrap_servers, topic, numbered(2, 10))
    fill(cluster.bootstrap_servers, topic, numbered(3, 50), partition=1)
    second = Stream(spark, cluster, topic, tmp_path, **options)
    second.run()
    assert sorted(each for batch in second.batches for each in batch) == [*numbered(2, 10), *numbered(3, 50)]
    again = Stream(spark, cluster, topic, tmp_path, **options)
    again.run()
    assert again.batches == []
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        shown = {each.partition: found.offset for each, found in admin.group_offsets(group).items()}
    assert shown == {0: 12, 1: 3}


def test_lost_records_stop_a_stream_unless_told_otherwise(
    spark: "SparkSession", cluster: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    options = {"startingOffsets": "earliest"}
    fill(cluster.bootstrap_servers, topic, numbered(4))
    Stream(spark, cluster, topic, tmp_path, **options).run()
    fill(cluster.bootstrap_servers, topic, numbered(6, 4))
    delete_records(cluster.bootstrap_servers, topic, 0, 7)
    with pytest.raises(StreamingQueryException, match="begins at offset 7 now"):
        Stream(spark, cluster, topic, tmp_path, **options).run()
    tolerant = Stream(spark, cluster, topic, tmp_path, **options, failOnDataLoss="false")
    tolerant.run()
    assert tolerant.batches == [numbered(3, 7)]


@pytest.mark.java
def test_a_checkpoint_of_the_connector_is_gone_on_with(
    spark: "SparkSession", cluster: Cluster, make_topic: MakeTopic, tmp_path: Path, connector_jars: str
) -> None:
    if not connector_jars:
        pytest.skip("Spark's own connector is not to be had")
    topic, options = make_topic(2), {"startingOffsets": "earliest"}
    fill(cluster.bootstrap_servers, topic, numbered(5))
    before = Stream(spark, cluster, topic, tmp_path, name="kafka", **options)
    before.run()
    assert [each for batch in before.batches for each in batch] == numbered(5)
    fill(cluster.bootstrap_servers, topic, numbered(3, 5))
    fill(cluster.bootstrap_servers, topic, numbered(1, 8), partition=1)
    after = Stream(spark, cluster, topic, tmp_path, **options)
    after.run()
    assert sorted(each for batch in after.batches for each in batch) == numbered(4, 5)
