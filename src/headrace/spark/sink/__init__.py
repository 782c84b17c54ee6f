"""The sink: rows of a DataFrame as records of topics.

    df.selectExpr("id AS key", "to_json(struct(*)) AS value") \\
        .write.format("headrace").option("kafka.bootstrap.servers", "127.0.0.1:9092") \\
        .option("topic", "orders").mode("append").save()

The driver checks the schema (`columns`) before anything runs. Each task gets Arrow batches from Spark, cuts
them into pieces of one topic and hands those to a producer (`rows`), which encodes them with a kernel: no
Python object is made for a record. When a task is done and what a commit decides is said by a delivery
strategy, one for each value of the option `delivery` (`writers`, `exactly_once`).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SinkError(ValueError):
    """Rows that records cannot be made of, or options that do not go together.

    The text says which column, row or option to change.
    """


class FeedWriter:
    """Update mode, which Spark refuses to sinks that are written in Python and takes in `foreachBatch`.

        counts.writeStream.outputMode("update").foreachBatch(
            FeedWriter({"kafka.bootstrap.servers": …, "topic": …})
        )

    Every micro-batch is a batch write with the sink's options; rows that changed come again. With the option
    `delivery=exactly_once` a batch that Spark repeats is not written again, since its tasks know query and
    batch as those of a stream do; not so through Spark Connect, which writes in a session of its own.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)

    def __call__(self, rows: "DataFrame", number: int) -> None:
        rows.write.format("headrace").options(**self._options).mode("append").save()
