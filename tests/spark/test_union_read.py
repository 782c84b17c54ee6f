"""A topic's history in a table and its tail in the log, read as one: each record once."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from headrace.testing import Cluster
from tests.spark.histories import load, union
from tests.spark.source_topics import FIRST_MS, delete_records, fill, numbered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MakeTopic = Callable[..., str]


def in_order(rows: "DataFrame") -> list[Any]:
    return rows.orderBy("partition", "offset").collect()


def test_table_and_log_are_one(
    spark: "SparkSession", cluster: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """On one kind of table; the planning's tests have both, and the other is read under fire."""
    kind = "delta"
    bootstrap, topic, path = cluster.bootstrap_servers, make_topic(2), tmp_path / "table"
    fill(bootstrap, topic, numbered(50), headers=[("h", b"x"), ("n", None)])
    fill(bootstrap, topic, numbered(30, 50), partition=1, key=None)
    assert sum(each.rows for each in load(spark, bootstrap, topic, kind, path, rows_per_batch=30)) == 80
    fill(bootstrap, topic, [*numbered(10, 80), None], first_ms=FIRST_MS + 100_000)

    plain = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "includeHeaders": "true"}
    log = spark.read.format("headrace").options(**plain).load()
    rows = union(spark, bootstrap, topic, path, includeHeaders="true")
    assert rows.schema == log.schema
    whole = in_order(log)
    assert in_order(rows) == whole
    # What retention removes from the log is in the table.
    delete_records(bootstrap, topic, 0, 50)
    delete_records(bootstrap, topic, 1, 20)
    assert in_order(union(spark, bootstrap, topic, path, includeHeaders="true")) == whole
    late = union(spark, bootstrap, topic, path, includeHeaders="true").where("offset >= 25 AND partition = 0")
    assert in_order(late) == [row for row in whole if row.partition == 0 and row.offset >= 25]
    # Loading goes on behind what is there, even where its checkpoint is gone.
    assert load(spark, bootstrap, topic, kind, path, checkpoint=str(tmp_path / "new"))[0].rows == 11
    delete_records(bootstrap, topic, 0, 61)
    assert in_order(union(spark, bootstrap, topic, path, includeHeaders="true")) == whole


def test_a_load_that_passes_over_lost_records_says_so(
    spark: "SparkSession", cluster: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    bootstrap, topic, path = cluster.bootstrap_servers, make_topic(1), tmp_path / "table"
    fill(bootstrap, topic, numbered(10))
    load(spark, bootstrap, topic, "delta", path)
    start = f'{{"{topic}": {{"0": 3}}}}'
    with pytest.raises(
        AssertionError, match=r"holds offsets 0 to 10 of .*-0 already, and this load begins at 3"
    ):
        load(spark, bootstrap, topic, "delta", path, checkpoint=str(tmp_path / "other"), start=start)
    fill(bootstrap, topic, numbered(10, 10))
    delete_records(bootstrap, topic, 0, 15)
    load(spark, bootstrap, topic, "delta", path, options={"failOnDataLoss": "false"})
    rows = union(spark, bootstrap, topic, path)
    with pytest.raises(PySparkException, match=r"has not all records of .*-0 before offset 15"):
        rows.count()
    assert union(spark, bootstrap, topic, path, failOnDataLoss="false").count() == 15
