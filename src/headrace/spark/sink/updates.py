"""Update mode, which Spark refuses to sinks that are written in Python and takes in `foreachBatch`.

counts.writeStream.outputMode("update").foreachBatch(FeedWriter({"kafka.bootstrap.servers": …, "topic": …}))
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class FeedWriter:
    """Writes every batch as a batch write with the sink's options; rows that changed come again."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)

    def __call__(self, rows: "DataFrame", number: int) -> None:
        rows.write.format("headrace").options(**self._options).mode("append").save()
