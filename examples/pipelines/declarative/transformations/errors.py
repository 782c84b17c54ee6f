"""Two feeds from one: errors, as JSON with their service as key, and what is no JSON at all.

The source and the sink are `format("headrace")`: nothing is registered and no jar is needed.
"""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from headrace.spark.payloads import Json, dead_letters, parsed

spark = SparkSession.active()
brokers = {"kafka.bootstrap.servers": os.environ.get("HEADRACE_BOOTSTRAP_SERVER", "127.0.0.1:9092")}
fields = "service STRING, level STRING, at TIMESTAMP, message STRING"

dp.create_sink("errors", "headrace", {**brokers, "topic": "errors"})
dp.create_sink("dead", "headrace", {**brokers, "topic": "service-logs-dead"})


@dp.temporary_view
def logs() -> DataFrame:
    """The raw feed, taken apart: `data`, `error` and the `record` itself."""
    records = spark.readStream.format("headrace").options(**brokers)
    return parsed(
        records.option("subscribe", "service-logs").option("startingOffsets", "earliest").load(), Json(fields)
    )


@dp.append_flow(target="errors")
def errors() -> DataFrame:
    found = spark.readStream.table("logs").where("data.level = 'ERROR'")
    return found.selectExpr("data.service AS key", "to_json(data) AS value")


@dp.append_flow(target="dead")
def poisoned() -> DataFrame:
    return dead_letters(spark.readStream.table("logs").where("error IS NOT NULL"))
