"""Source and sink on a cluster that asks for a login over TLS; the password is told to nobody."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from headrace.testing import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)
ROWS = [(str(number), str(number)) for number in range(100)]
WRONG = "not-the-password"


@pytest.fixture(scope="module")
def secure() -> Iterator[Cluster]:
    with Cluster(secure=True) as running:
        running.create_topic("secrets", partitions=2)
        yield running


def options_of(secure: Cluster, user: str = "app") -> dict[str, str]:
    return {f"kafka.{name}": value for name, value in secure.client_settings(user).items()}


def test_batch_and_stream(spark: "SparkSession", secure: Cluster, tmp_path: Path) -> None:
    options = options_of(secure)
    rows = spark.createDataFrame(ROWS, "key string, value string")
    rows.write.format("headrace").options(**options).option("topic", "secrets").mode("append").save()
    found = spark.read.format("headrace").options(**options).option("subscribe", "secrets").load()
    texts = found.selectExpr("cast(key AS string)", "cast(value AS string)")
    assert sorted(tuple(row) for row in texts.collect()) == sorted(ROWS)
    plan = found._jdf.queryExecution().toString()
    assert options["kafka.sasl.password"] not in plan

    secure.create_topic("copies", partitions=2)
    stream = spark.readStream.format("headrace").options(**options).option("subscribe", "secrets")
    query = (
        stream.option("startingOffsets", "earliest")
        .load()
        .writeStream.format("headrace")
        .options(**options)
        .option("topic", "copies")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    copies = spark.read.format("headrace").options(**options).option("subscribe", "copies").load()
    assert copies.count() == len(ROWS)
    for path in (tmp_path / "checkpoint").rglob("*"):
        assert path.is_dir() or options["kafka.sasl.password"].encode() not in path.read_bytes(), path


def test_a_wrong_password_is_told_without_telling_it(spark: "SparkSession", secure: Cluster) -> None:
    options = options_of(secure) | {"kafka.sasl.password": WRONG}
    frame = spark.read.format("headrace").options(**options).option("subscribe", "secrets")
    with pytest.raises(PySparkException) as raised:
        frame.load().collect()
    assert "uthentication failed" in str(raised.value)
    assert WRONG not in str(raised.value)
