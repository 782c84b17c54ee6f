"""A broker that dies while a task reads or the driver plans, and comes back: nothing is lost or twice."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from headrace.clients import Admin
from headrace.spark.columns import spark_schema
from headrace.spark.ranges import OffsetRange
from headrace.spark.reading import read_range
from headrace.spark.stream_reader import HeadraceStreamReader
from tests.compat.brokers import HeadraceBroker
from tests.spark.source_topics import fill, numbered, options_for


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[HeadraceBroker]:
    with HeadraceBroker(tmp_path / "data") as started:
        started.start()
        with Admin(bootstrap_servers=started.bootstrap) as admin:
            admin.create_topic("orders", partitions=1)
        yield started


def test_a_task_reads_on_when_its_broker_is_back(broker: HeadraceBroker) -> None:
    values = [str(number).zfill(1000).encode() for number in range(3000)]
    fill(broker.bootstrap, "orders", values)
    # Small answers, so that most of the range is still to be fetched when the broker dies.
    options = options_for(broker.bootstrap, "orders", **{"kafka.max.partition.fetch.bytes": "100000"})
    rows = read_range(OffsetRange("orders", 0, 0, 3000), options)
    found = next(rows).column("value").to_pylist()
    assert len(found) < 1000
    broker.kill()
    broker.start()
    for batch in rows:
        found += batch.column("value").to_pylist()
    assert found == values


def test_a_stream_is_planned_when_its_broker_is_back(broker: HeadraceBroker) -> None:
    fill(broker.bootstrap, "orders", numbered(5))
    options = options_for(broker.bootstrap, "orders", streaming=True, startingOffsets="earliest")
    reader = HeadraceStreamReader(options, spark_schema(options.columns))
    start = reader.initialOffset()
    broker.kill()
    with ThreadPoolExecutor(1) as beside:
        end = beside.submit(reader.latestOffset, start, ReadAllAvailable())
        broker.start()
        assert end.result(60)["orders"] == {"0": 5}
    reader.stop()
