"""Pipelines whose tables and checkpoints are on S3, in a Spark with Hadoop's jar for it; a process of its
own, since a session takes jars at its start only.

`python -m tests.spark.s3a_tables ENDPOINT JARS` prints what came out, as JSON.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from pyarrow.fs import S3FileSystem

from headrace.clients import Producer
from headrace.spark.loads.batches import Loaded
from headrace.spark.loads.feed_load import FeedLoad, run_load
from headrace.spark.pipeline.runner import run
from headrace.spark.pipeline.spec_reader import read_spec
from headrace.spark.session import spark_session
from headrace.testing import Cluster
from tests.spark.histories import source_options
from tests.tiered.servers import S3_SETTINGS

KINDS = ("parquet", "delta", "iceberg")
_PLACES = {kind: f"s3a://bucket/tables/{kind}" for kind in KINDS} | {"iceberg": "catalog://lake/sales.orders"}


def main(endpoint: str, jars: str) -> None:
    # Arrow sends a check sum behind the body, which the test's server takes for part of it.
    os.environ["AWS_REQUEST_CHECKSUM_CALCULATION"] = "when_required"
    folder = Path(tempfile.mkdtemp())
    _make_bucket(endpoint)
    settings = {
        "spark.jars": ",".join(sorted(map(str, Path(jars).glob("*.jar")))),
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": S3_SETTINGS["region"],
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": S3_SETTINGS["access.key.id"],
        "spark.hadoop.fs.s3a.secret.key": S3_SETTINGS["secret.access.key"],
        "spark.sql.catalog.lake.type": "sql",
        "spark.sql.catalog.lake.uri": f"sqlite:///{folder}/lake.db",
        "spark.sql.catalog.lake.warehouse": "s3://bucket/lake",
    }
    spark = spark_session("tables on S3", master="local[2]", config=settings)
    with Cluster() as cluster:
        cluster.create_topic("orders", 2)
        found = {kind: _tables(spark, cluster.bootstrap_servers, folder, kind) for kind in KINDS}
    print(json.dumps(found), flush=True)
    spark.stop()


def _make_bucket(endpoint: str) -> None:
    store = S3FileSystem(
        endpoint_override=endpoint,
        access_key=S3_SETTINGS["access.key.id"],
        secret_key=S3_SETTINGS["secret.access.key"],
        region=S3_SETTINGS["region"],
        allow_bucket_creation=True,
    )
    store.create_dir("bucket")


def _tables(spark: Any, brokers: str, folder: Path, kind: str) -> dict[str, Any]:
    """Loads twice from one checkpoint, then reads it as a history; and upserts, where the kind has them."""
    with Producer(bootstrap_servers=brokers) as producer:
        for number in range(10):
            producer.send("orders", b'{"id": %d, "n": %d}' % (number % 3, number), key=b"%d" % (number % 3))
    loads = [_loaded(spark, brokers, kind, _PLACES[kind]) for _ in range(2)]
    if kind == "parquet":
        return {"loads": loads, "rows": spark.read.parquet(_PLACES[kind]).count()}
    union = spark.read.format("headrace").options(**source_options(brokers, "orders", _PLACES[kind])).load()  # type: ignore[arg-type]
    newest = f"{_PLACES[kind]}_newest"
    text = (
        "-- in orders: feed orders\n--   json: id INT, n INT\n-- trigger: available now\n"
        f"-- checkpoint: s3a://bucket/checkpoints/{kind}\n"
        f"-- out: {kind} {newest}\n--   mode: upsert\n--   key: id\nSELECT id, n FROM orders\n"
    )
    [stop] = run(
        spark,
        read_spec(str(folder / f"{kind}.sql"), text, {}),
        brokers,
        tell=lambda _: None,
        should_stop=lambda: False,
    )
    assert stop.failure is None, stop.failure
    return {
        "loads": loads,
        "rows": union.count(),
        "shows_secret": S3_SETTINGS["secret.access.key"] in union._jdf.queryExecution().toString(),
        "newest": sorted(_newest(spark, kind, newest)),
    }


def _loaded(spark: Any, brokers: str, kind: str, place: str) -> list[int]:
    """The rows of each batch that was new."""
    done: list[Loaded] = []
    load = FeedLoad("orders", kind, place, brokers, checkpoint=f"s3a://bucket/checkpoints/load-{kind}")
    stop = run_load(spark, load, tell=lambda _: None, loaded=done.append, should_stop=lambda: False)
    assert stop.failure is None, stop.failure
    return [each.rows for each in done if each.is_new]


def _newest(spark: Any, kind: str, place: str) -> list[list[int]]:
    from headrace.spark.loads.delta_table import delta_rows
    from headrace.spark.loads.iceberg_catalog import named_table
    from headrace.spark.loads.stores import session_settings

    settings = session_settings(spark)
    rows = (
        delta_rows(place, settings)
        if kind == "delta"
        else named_table(place, settings).load().scan().to_arrow()
    )
    return [[row["id"], row["n"]] for row in rows.to_pylist()]


if __name__ == "__main__":
    main(*sys.argv[1:])
