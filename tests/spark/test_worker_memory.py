"""A worker's memory does not grow with what a task writes or reads; the long form is `worker_memory`."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.testing import Cluster
from tests.spark.worker_memory import GROWTH_MB_MAX, growths

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BACKLOG_MB = 2 * GROWTH_MB_MAX


def test_a_worker_stays_small_on_a_large_backlog(
    spark: "SparkSession", cluster: Cluster, make_topic: Callable[..., str]
) -> None:
    for what, grown in growths(spark, cluster.bootstrap_servers, make_topic(1), BACKLOG_MB):
        assert grown < GROWTH_MB_MAX, f"to {what} {BACKLOG_MB} MB a worker grew by {grown:.0f} MB"
