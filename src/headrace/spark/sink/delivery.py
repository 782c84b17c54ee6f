"""How rows are delivered: one strategy for each value of the option `delivery`.

A strategy has three parts, in the places where Spark calls them. `write` runs in a task, with that task's
rows, and returns a receipt. `commit` runs once on the driver when every task has returned one, and `abort`
when one has not. Spark repeats a batch whose commit it did not see, and it may call `abort` after a commit
that did its work: so an abort must never undo what a commit decided.

`at_least_once`: a task's rows are acknowledged by all in-sync replicas before it says it is done, so a commit
has nothing left to do, and an abort nothing it could take back. A task or batch that Spark repeats is written
again.

`exactly_once` is to be a strategy of the same shape: `write` leaves a prepared transaction behind, named
after the query, the batch and the task (`TaskIdentity`), and its receipt carries it; `commit` writes one
durable decision for the batch and completes every transaction by it; a repeated batch finds the decision and
writes nothing. It needs transactions, which brokers here do not have yet.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

import pyarrow as pa

from headrace.base.ids import TopicPartition
from headrace.clients import Delivery, Producer
from headrace.clients.errors import ClientError
from headrace.spark.options import WriteOptions
from headrace.spark.sink.columns import WriteColumns
from headrace.spark.sink.errors import SinkError
from headrace.spark.sink.producers import lent_producer, producer_settings
from headrace.spark.sink.receipts import Receipt, TaskIdentity, Written
from headrace.spark.sink.rows import partition_bounds, pieces


class DeliveryStrategy(Protocol):
    """Pickled on the driver and sent to every task."""

    def write(self, batches: Iterable[pa.RecordBatch], task: TaskIdentity) -> Receipt: ...

    def commit(self, receipts: Sequence[Receipt | None], batch_id: int | None) -> None: ...

    def abort(self, receipts: Sequence[Receipt | None], batch_id: int | None) -> None: ...


class AtLeastOnce:
    """Idempotent producers, acks=all, and nothing in a buffer when a task is done."""

    def __init__(self, options: WriteOptions, columns: WriteColumns) -> None:
        self._settings = producer_settings(options.settings)
        self._topic = options.topic
        self._columns = columns

    def write(self, batches: Iterable[pa.RecordBatch], task: TaskIdentity) -> Receipt:
        ledger = _Ledger()
        with lent_producer(self._settings) as producer:
            for topic, rows in pieces(batches, self._columns, self._topic):
                _check_partitions(producer, topic, rows)
                ledger.enter(producer.send_arrow(topic, rows))
            producer.flush()
            return Receipt(task, ledger.closed())

    def commit(self, receipts: Sequence[Receipt | None], batch_id: int | None) -> None:
        pass  # every record was acknowledged before its task said so

    def abort(self, receipts: Sequence[Receipt | None], batch_id: int | None) -> None:
        pass  # what is written stays: Spark runs the batch again


class _Ledger:
    """Deliveries on their way. Those that are decided are booked and let go, and their bytes with them."""

    def __init__(self) -> None:
        self._open: deque[Delivery] = deque()
        self._written: dict[TopicPartition, Written] = {}

    def enter(self, deliveries: Iterable[Delivery]) -> None:
        self._open.extend(deliveries)
        while self._open and self._open[0].done():
            self._book(self._open.popleft())

    def closed(self) -> dict[TopicPartition, Written]:
        """What was written, once all is decided; raises what went wrong with any of it."""
        while self._open:
            self._book(self._open.popleft())
        return self._written

    def _book(self, delivery: Delivery) -> None:
        for first, count in delivery.batch_results():
            partition = TopicPartition(first.topic, first.partition)
            own = Written(count, first.offset + count - 1 if first.offset >= 0 else -1)
            before = self._written.get(partition)
            self._written[partition] = own if before is None else before + own


def _check_partitions(producer: Producer, topic: str, rows: pa.RecordBatch) -> None:
    bounds = partition_bounds(rows)
    if bounds is None:
        return
    least, most = bounds
    if least < 0:
        raise SinkError(
            f"a row for topic {topic!r} has {least} in the column `partition`: partitions go from 0, and "
            "null leaves the choice to the row's key"
        )
    try:
        producer.partitions_for(topic, at_least=most + 1)
    except ClientError as error:
        raise SinkError(f"a row has {most} in the column `partition`: {error}") from error


_STRATEGIES: Final = {"at_least_once": AtLeastOnce}


def delivery_strategy(options: WriteOptions, columns: WriteColumns) -> DeliveryStrategy:
    """The strategy that the options name; SinkError for one that there is not."""
    if options.delivery == "exactly_once":
        raise SinkError(
            "delivery=exactly_once needs transactions, which are not there yet: use "
            "delivery=at_least_once, and expect a batch that Spark repeats after a failure to come again"
        )
    strategy = _STRATEGIES.get(options.delivery)
    if strategy is None:
        raise SinkError(f"delivery={options.delivery}: it must be {' or '.join(_STRATEGIES)}")
    return strategy(options, columns)
