"""A history under fire (`union_fire`); `pytest -m slow` with this file is the long form."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.testing import Cluster
from tests.spark.union_fire import PARTITIONS, UnionFire

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MakeTopic = Callable[..., str]


def _run(
    kind: str, runs: int, spark: "SparkSession", cluster: Cluster, make_topic: MakeTopic, folder: Path
) -> None:
    fire = UnionFire(spark, cluster.bootstrap_servers, make_topic(PARTITIONS), kind, folder)
    fire.run(runs)
    assert fire.reads > runs
    assert fire.removed > 0
    assert fire.joined > 0


@pytest.mark.timeout(300)
def test_each_record_is_read_once_under_fire(
    spark: "SparkSession", cluster: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """On one kind of table: the long form has both, and so have the planning's tests."""
    _run("iceberg", 2, spark, cluster, make_topic, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_each_record_is_read_once_under_long_fire(
    kind: str, spark: "SparkSession", cluster: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    _run(kind, 20, spark, cluster, make_topic, tmp_path)
