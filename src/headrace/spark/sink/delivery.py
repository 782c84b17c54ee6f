"""How rows are delivered: one strategy for each value of the option `delivery`.

A strategy has three parts, in the places where Spark calls them. `write` runs in a task, with that task's
rows, and returns a receipt. `commit` runs once on the driver when every task has returned one, and `abort`
when one has not. Spark repeats a batch whose commit it did not see, and it may call `abort` after a commit
that did its work: so an abort must never undo what a commit decided.

`at_least_once`: a task's rows are acknowledged by all in-sync replicas before it says it is done, so a commit
has nothing left to do, and an abort nothing it could take back. A task or batch that Spark repeats is written
again.

`exactly_once`: a task leaves an open transaction behind, and its receipt names it; a commit writes one
durable decision for the batch and completes the transactions by it (`exactly_once.py`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

import pyarrow as pa

from headrace.spark.options import WriteOptions
from headrace.spark.sink.columns import WriteColumns
from headrace.spark.sink.errors import SinkError
from headrace.spark.sink.exactly_once import ExactlyOnce
from headrace.spark.sink.producers import lent_producer, producer_settings
from headrace.spark.sink.receipts import Receipt, TaskIdentity
from headrace.spark.sink.sending import send_rows


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
        with lent_producer(self._settings) as producer:
            return Receipt(task, send_rows(producer, batches, self._columns, self._topic))

    def commit(self, receipts: Sequence[Receipt | None], batch_id: int | None) -> None:
        pass  # every record was acknowledged before its task said so

    def abort(self, receipts: Sequence[Receipt | None], batch_id: int | None) -> None:
        pass  # what is written stays: Spark runs the batch again


_STRATEGIES: Final[Mapping[str, Callable[[WriteOptions, WriteColumns], DeliveryStrategy]]] = {
    "at_least_once": AtLeastOnce,
    "exactly_once": ExactlyOnce,
}


def delivery_strategy(options: WriteOptions, columns: WriteColumns, usual: str) -> DeliveryStrategy:
    """The strategy that the options name, or else the usual one; SinkError for one that there is not."""
    name = options.delivery or usual
    strategy = _STRATEGIES.get(name)
    if strategy is None:
        raise SinkError(f"delivery={name}: it must be {' or '.join(_STRATEGIES)}")
    return strategy(options, columns)
