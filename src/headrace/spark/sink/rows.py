"""A task's rows to a producer: Spark's Arrow batches as pieces of one topic, and what became of them.

Spark cuts its batches by rows (10,000 at most), so they can be a few bytes or a gigabyte. Large ones are
cut, so that a task's memory stays bounded; that copies nothing. Small ones are put together, which does:
where all go to one topic only very small ones, since the producer's batches go on from piece to piece; where
rows name their topics all that are below that limit, because each topic's part of a piece is sent by itself.
Rows of several topics are brought into topic order by one stable sort of dictionary codes, and each topic's
rows keep their order.

Rows for one topic are a stream to the producer. Where rows name their topics, each piece is sent by itself:
there may be any number of topics, and a stream holds a batch for each partition of its own.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa

from headrace.base.ids import TopicPartition
from headrace.clients.errors import ClientError
from headrace.spark.sink import SinkError
from headrace.spark.sink.columns import WriteColumns
from headrace.spark.sink.commit_message import PartitionWrites

if TYPE_CHECKING:
    from headrace.clients import ArrowStream, Delivery, Producer

# What is encoded at once. A producer keeps 32 MiB (buffer.memory) on its way at most, and goes on encoding
# meanwhile, so this is small against it.
PIECE_BYTES: Final = 4 * 1024 * 1024
# Rows without a key stay together and go to one partition each time: small enough to spread them evenly.
KEYLESS_PIECE_BYTES: Final = 512 * 1024

# What a piece has at least, if there are rows enough: a call for each takes as long as some hundred rows do.
SMALL_BYTES: Final = 128 * 1024

Rows: TypeAlias = pa.RecordBatch


def send_rows(
    producer: "Producer", batches: Iterable[pa.RecordBatch], columns: WriteColumns, topic: str | None
) -> dict[TopicPartition, PartitionWrites]:
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
        self._written: dict[TopicPartition, PartitionWrites] = {}

    def enter(self, deliveries: "Iterable[Delivery]") -> None:
        self._open.extend(deliveries)
        while self._open and self._open[0].done():
            self._book(self._open.popleft())

    def closed(self) -> dict[TopicPartition, PartitionWrites]:
        """What was written, once all is decided; raises what went wrong with any of it."""
        while self._open:
            self._book(self._open.popleft())
        return self._written

    def _book(self, delivery: "Delivery") -> None:
        for first, count in delivery.batch_results():
            partition = TopicPartition(first.topic, first.partition)
            own = PartitionWrites(count, first.offset + count - 1 if first.offset >= 0 else -1)
            before = self._written.get(partition)
            self._written[partition] = own if before is None else before + own


def _check_partitions(producer: "Producer", topic: str, rows: pa.RecordBatch) -> None:
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


def pieces(batches: Iterable[Rows], columns: WriteColumns, topic: str | None) -> Iterator[tuple[str, Rows]]:
    """Each topic with rows for it, in order; SinkError for rows that name no topic."""
    bytes_max = PIECE_BYTES if {"key", "partition"} & set(columns.names) else KEYLESS_PIECE_BYTES
    bytes_min = bytes_max if columns.has_topic else SMALL_BYTES
    for rows in _sized(batches, bytes_min, bytes_max):
        wanted = rows.select(list(columns.names))
        if not columns.has_topic:
            assert topic is not None, "the driver has checked that there is a topic"
            yield topic, wanted
        else:
            yield from _by_topic(wanted, rows.column("topic"))


def _sized(batches: Iterable[Rows], bytes_min: int, bytes_max: int) -> Iterator[Rows]:
    """The same rows in batches between about these sizes."""
    small: list[Rows] = []
    small_bytes = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        size = batch.nbytes
        if size < bytes_min // 2:
            small.append(batch)
            small_bytes += size
            if small_bytes >= bytes_min:
                yield _joined(small)
                small, small_bytes = [], 0
            continue
        if small:  # in order
            yield _joined(small)
            small, small_bytes = [], 0
        count = max(1, batch.num_rows * bytes_max // size)
        for start in range(0, batch.num_rows, count):
            yield batch.slice(start, count)
    if small:
        yield _joined(small)


def _joined(batches: list[Rows]) -> Rows:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _by_topic(rows: Rows, topics: pa.Array) -> Iterator[tuple[str, Rows]]:
    if topics.null_count:
        raise SinkError(
            f"{topics.null_count} of {len(topics)} rows have null in the column `topic`: "
            "give every row a topic, filter such rows out, or name one topic for all with the option `topic`"
        )
    coded = topics.dictionary_encode()
    names = coded.dictionary.to_pylist()
    if len(names) == 1:
        yield names[0], rows
        return
    codes = coded.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    sorted_rows = rows.take(pa.array(order))
    ends = np.cumsum(np.bincount(codes, minlength=len(names)))
    start = 0
    for name, end in zip(names, ends.tolist(), strict=True):
        yield name, sorted_rows.slice(start, end - start)
        start = end


def partition_bounds(rows: Rows) -> tuple[int, int] | None:
    """The least and the largest partition that rows name; None where none does."""
    if "partition" not in rows.schema.names:
        return None
    said = rows.column("partition").drop_null().to_numpy()
    return (int(said.min()), int(said.max())) if len(said) else None
