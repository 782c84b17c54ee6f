"""The two writers that Spark knows, for batch and for streaming queries, and how they deliver.

Spark makes a new writer for every batch, pickles it to every task and calls `commit` or `abort` on a copy in
another process: a writer is a value, and keeps nothing. All it does is its delivery strategy's, one for each
value of the option `delivery`. A strategy has three parts, in the places where Spark calls them: `write` runs
in a task, with that task's rows, and returns a commit message; `commit` runs once for the driver when every
task has returned one, and `abort` when one has not. Spark repeats a batch whose commit it did not see, and it
may call `abort` after a commit that did its work: so an abort must never undo what a commit decided.

`at_least_once`: a task's rows are acknowledged by all in-sync replicas before it says it is done, so a commit
has nothing left to do, and an abort nothing it could take back. A task or batch that Spark repeats is written
again.

`exactly_once`: a task leaves an open transaction, and its commit message names it; a commit writes one
durable decision for the batch and completes the transactions by it (`exactly_once.py`).

Spark starts a process for each of planning and committing: what only tasks need is imported there.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol, cast

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from headrace.spark.abilities import WRITES_STREAMS_AS_ARROW
from headrace.spark.options import WriteOptions
from headrace.spark.sink import SinkError
from headrace.spark.sink.columns import WriteColumns, check_columns
from headrace.spark.sink.commit_message import TaskCommitMessage, TaskIdentity
from headrace.spark.sink.producers import lent_producer, producer_settings
from headrace.spark.worker import spare_modules

if TYPE_CHECKING:
    import pyarrow as pa


class DeliveryStrategy(Protocol):
    """Pickled on the driver and sent to every task."""

    def write(self, batches: "Iterable[pa.RecordBatch]", task: TaskIdentity) -> TaskCommitMessage: ...

    def commit(self, messages: Sequence[TaskCommitMessage | None], batch_id: int | None) -> None: ...

    def abort(self, messages: Sequence[TaskCommitMessage | None], batch_id: int | None) -> None: ...


class AtLeastOnce:
    """Idempotent producers, acks=all, and nothing in a buffer when a task is done."""

    def __init__(self, options: WriteOptions, columns: WriteColumns) -> None:
        self._settings = producer_settings(options.settings)
        self._topic = options.topic
        self._columns = columns

    def write(self, batches: "Iterable[pa.RecordBatch]", task: TaskIdentity) -> TaskCommitMessage:
        from headrace.spark.sink.rows import send_rows

        with lent_producer(self._settings) as producer:
            return TaskCommitMessage(task, send_rows(producer, batches, self._columns, self._topic))

    def commit(self, messages: Sequence[TaskCommitMessage | None], batch_id: int | None) -> None:
        pass  # every record was acknowledged before its task said so

    def abort(self, messages: Sequence[TaskCommitMessage | None], batch_id: int | None) -> None:
        pass  # what is written stays: Spark runs the batch again


def _exactly_once(options: WriteOptions, columns: WriteColumns) -> DeliveryStrategy:
    from headrace.spark.sink.exactly_once import ExactlyOnce  # with all that clients need

    return ExactlyOnce(options, columns)


_STRATEGIES: Final[Mapping[str, Callable[[WriteOptions, WriteColumns], DeliveryStrategy]]] = {
    "at_least_once": AtLeastOnce,
    "exactly_once": _exactly_once,
}


def delivery_strategy(options: WriteOptions, columns: WriteColumns, usual: str) -> DeliveryStrategy:
    """The strategy that the options name, or else the usual one; SinkError for one that there is not."""
    name = options.delivery or usual
    strategy = _STRATEGIES.get(name)
    if strategy is None:
        raise SinkError(f"delivery={name}: it must be {' or '.join(_STRATEGIES)}")
    return strategy(options, columns)


_Messages = list[WriterCommitMessage | None]


class HeadraceBatchWriter(DataSourceArrowWriter):
    """Of a batch query."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise SinkError("a topic cannot be overwritten, only added to: use mode('append')")
        self._strategy = _strategy(options, schema, "at_least_once")

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        return _write(self._strategy, iterator)

    def commit(self, messages: _Messages) -> None:
        self._strategy.commit(_own(messages), None)

    def abort(self, messages: _Messages) -> None:
        self._strategy.abort(_own(messages), None)


if TYPE_CHECKING or WRITES_STREAMS_AS_ARROW:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:

    class DataSourceStreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):
        """Spark 4.0 gives Arrow to a writer that is a DataSourceArrowWriter, whatever else it is."""


class HeadraceStreamWriter(DataSourceStreamArrowWriter):
    """Of a streaming query: one for each micro-batch."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise SinkError(
                "a topic cannot be overwritten, so outputMode('complete') cannot be written to one: use "
                "outputMode('append'), or outputMode('update') with foreachBatch(FeedWriter(options))"
            )
        self._strategy = _strategy(options, schema, "exactly_once")

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        return _write(self._strategy, iterator)

    def commit(self, messages: _Messages, batchId: int) -> None:  # noqa: N803
        self._strategy.commit(_own(messages), batchId)

    def abort(self, messages: _Messages, batchId: int) -> None:  # noqa: N803
        self._strategy.abort(_own(messages), batchId)


def _strategy(options: WriteOptions, schema: StructType, usual: str) -> DeliveryStrategy:
    return delivery_strategy(options, check_columns(schema, options.topic), usual)


def _write(strategy: DeliveryStrategy, batches: "Iterator[pa.RecordBatch]") -> TaskCommitMessage:
    message = strategy.write(batches, TaskIdentity.current())
    spare_modules()
    return message


def _own(messages: _Messages) -> list[TaskCommitMessage | None]:
    return cast("list[TaskCommitMessage | None]", messages)
