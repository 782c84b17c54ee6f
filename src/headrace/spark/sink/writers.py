"""The two writers that Spark knows, for batch and for streaming queries; all they do is their strategy's.

Spark makes a new writer for every batch, pickles it to every task and calls `commit` or `abort` on a copy in
another process: a writer is a value, and keeps nothing.
"""

from collections.abc import Iterator
from typing import cast

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from headrace.spark.options import WriteOptions
from headrace.spark.sink.columns import check_columns
from headrace.spark.sink.delivery import DeliveryStrategy, delivery_strategy
from headrace.spark.sink.errors import SinkError
from headrace.spark.sink.receipts import Receipt, TaskIdentity
from headrace.spark.worker_garbage import spare_modules

_Messages = list[WriterCommitMessage | None]


class HeadraceBatchWriter(DataSourceArrowWriter):
    """Of a batch query."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise SinkError("a topic cannot be overwritten, only added to: use mode('append')")
        self._strategy = _strategy(options, schema, "at_least_once")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write(self._strategy, iterator)

    def commit(self, messages: _Messages) -> None:
        self._strategy.commit(_receipts(messages), None)

    def abort(self, messages: _Messages) -> None:
        self._strategy.abort(_receipts(messages), None)


class HeadraceStreamWriter(DataSourceStreamArrowWriter):
    """Of a streaming query: one for each micro-batch."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise SinkError(
                "a topic cannot be overwritten, so outputMode('complete') cannot be written to one: use "
                "outputMode('append'), or outputMode('update') with foreachBatch(FeedWriter(options))"
            )
        self._strategy = _strategy(options, schema, "exactly_once")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write(self._strategy, iterator)

    def commit(self, messages: _Messages, batchId: int) -> None:  # noqa: N803
        self._strategy.commit(_receipts(messages), batchId)

    def abort(self, messages: _Messages, batchId: int) -> None:  # noqa: N803
        self._strategy.abort(_receipts(messages), batchId)


def _strategy(options: WriteOptions, schema: StructType, usual: str) -> DeliveryStrategy:
    return delivery_strategy(options, check_columns(schema, options.topic), usual)


def _write(strategy: DeliveryStrategy, batches: Iterator[pa.RecordBatch]) -> Receipt:
    receipt = strategy.write(batches, TaskIdentity.current())
    spare_modules()
    return receipt


def _receipts(messages: _Messages) -> list[Receipt | None]:
    return cast("list[Receipt | None]", messages)
