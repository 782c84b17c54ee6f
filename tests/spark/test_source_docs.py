"""The blocks of docs/spark-source.md, spark-sink.md and direct-reading.md, run in their order."""

import ast
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.clients import Admin
from headrace.spark import session
from headrace.testing import Cluster
from tests.house.source import ROOT
from tests.spark.conftest import MakeTopic
from tests.spark.source_topics import fill, numbered
from tests.spark.test_segments_live import copied
from tests.spark.whole_topics import whole_topic
from tests.tiered.tiered_cluster import TOPIC, tiered_cluster, wait_for_tail, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BLOCK = re.compile(r"^```(python|sql)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: str, changes: Mapping[str, str]) -> list[str]:
    """A page's programs, with the test's own places in them; each of these is named somewhere."""
    found = [text for _, text in BLOCK.findall((ROOT / "docs" / page).read_text())]
    for old, new in changes.items():
        assert any(old in text for text in found), f"{page} has no {old}"
        found = [text.replace(old, new) for text in found]
    return found


def run(text: str, names: dict[str, Any]) -> list[Any]:
    """Run a program; what its expressions gave, which it keeps nowhere."""
    given = []
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.Expr):
            given.append(eval(compile(ast.Expression(statement.value), "docs", "eval"), names))
        else:
            exec(compile(ast.Module([statement], []), "docs", "exec"), names)
    return given


def test_source_and_sink(
    spark: "SparkSession",
    cluster: Cluster,
    make_topic: MakeTopic,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(session, "spark_session", lambda *_, **__: spark)
    topic, written, counted = make_topic(), make_topic(), make_topic()
    fill(cluster.bootstrap_servers, topic, numbered(3))
    names: dict[str, Any] = {}
    here = {"127.0.0.1:9092": cluster.bootstrap_servers}
    reading, tables = blocks(
        "spark-source.md", {**here, '"orders")\n    .option': f'"{topic}")\n    .option'}
    )
    run(reading, names)
    orders = names["orders"]
    create, count, select = tables.replace("'orders'", f"'{topic}'").strip().rstrip(";").split(";")
    spark.sql(create)
    try:
        assert spark.sql(count).collect()[0][0] == 3
        assert [bytes(row.value) for row in spark.sql(select).collect()] == numbered(3)
    finally:
        spark.sql("DROP TABLE orders")

    own = {**here, '"topic", "orders"': f'"topic", "{written}"', '"topic": "counts"': f'"topic": "{counted}"'}
    writing, updating = blocks("spark-sink.md", {**own, "checkpoints/": f"{tmp_path}/"})
    names["rows"] = spark.range(2).coalesce(1)
    names["stream"] = orders.selectExpr(f"'{written}' AS topic", "value")
    names["counts"] = orders.groupBy("topic").count().selectExpr("CAST(count AS STRING) AS value")
    for text in (writing, updating):
        run(text, names)
        names["query"].processAllAvailable()
        names["query"].stop()
    found = sorted(each.value or b"" for each in whole_topic(cluster.bootstrap_servers, written))
    assert found == sorted([*numbered(3), b'{"id":0}', b'{"id":1}'])
    assert [each.value for each in whole_topic(cluster.bootstrap_servers, counted)] == [b"3"]


def test_direct_reading(spark: "SparkSession", tmp_path: Path) -> None:
    store, backup = tmp_path / "store", tmp_path / "backup"
    with tiered_cluster(store) as cluster:
        cluster.create_topic("plain")
        fill(cluster.bootstrap_servers, "plain", numbered(5))
        cluster.create_topic("orders", configs=TOPIC)
        write(cluster, "orders", 600)
        wait_for_tail(cluster, "orders", at_least=500)
        copied(cluster, "plain", backup)
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            (log_dir,) = admin.describe_log_dirs(1)
        own = {"127.0.0.1:9092": cluster.bootstrap_servers, "s3://bucket/some/prefix": str(store)}
        plain, tiered, alone = blocks("direct-reading.md", own)
        names = {"spark": spark}
        for read in run(plain.replace("/backup/kafka-logs", str(backup)).replace("orders", "plain"), names):
            assert sorted(bytes(row.value) for row in read.collect()) == numbered(5)
        [read] = run(tiered.replace(".load()", '.option("minPartitions", "3").load()'), names)
        assert sorted(int(row.value) for row in read.collect()) == list(range(600))
        options = '.option("store.secret.access.key", "xyzzy").load()'
        [hidden] = run(tiered.replace(str(store), "s3://b").replace(".load()", options), names)
        assert "xyzzy" not in hidden._jdf.queryExecution().toString()
        cluster.stop_node(1)  # which writes down how far its log may be read
        [read] = run(alone.replace("/backup/kafka-logs", log_dir.path), names)
        assert sorted(int(row.value) for row in read.collect()) == list(range(600))
