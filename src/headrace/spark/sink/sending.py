"""A task's rows to a producer, and what became of them.

Rows for one topic are a stream to the producer, whose batches go on from piece to piece. Where rows name
their topics, each piece is sent by itself: there may be any number of topics, and a stream holds a batch for
each partition of its own.
"""

from collections import deque
from collections.abc import Iterable

import pyarrow as pa

from headrace.base.ids import TopicPartition
from headrace.clients import Delivery, Producer
from headrace.clients.errors import ClientError
from headrace.clients.producing.face import ArrowStream
from headrace.spark.sink.columns import WriteColumns
from headrace.spark.sink.errors import SinkError
from headrace.spark.sink.receipts import Written
from headrace.spark.sink.rows import partition_bounds, pieces


def send_rows(
    producer: Producer, batches: Iterable[pa.RecordBatch], columns: WriteColumns, topic: str | None
) -> dict[TopicPartition, Written]:
    """Returns when all rows are acknowledged; raises what went wrong with any of them."""
    ledger = _Ledger()
    stream: ArrowStream | None = None
    for name, rows in pieces(batches, columns, topic):
        _check_partitions(producer, name, rows)
        if columns.has_topic:
            ledger.enter(producer.send_arrow(name, rows))
        else:
            stream = stream or producer.arrow_stream(name)
            ledger.enter(stream.send(rows))
    if stream is not None:
        ledger.enter(stream.finish())
    producer.flush()
    return ledger.closed()


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
