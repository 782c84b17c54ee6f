"""A batch on its way, and the futures of its records.

A batch gathers rows until it is sealed: then the rows become a records section, packed where a codec is set,
and only their timestamps stay. Whatever happens to it after that (a new sequence, a retry) changes its header
only. A record's future (`Delivery`) is no more than the batch and the record's place in it: the batch is
resolved once, and all its records with it. Futures may be waited for in any thread and awaited on any loop.
"""

import asyncio
import threading
from collections.abc import Callable, Generator, Iterator
from typing import Any, Final, NamedTuple

from headrace.base.chunks import Buffer
from headrace.base.ids import TopicPartition
from headrace.clients.errors import TimedOutError
from headrace.clients.internals.producer.encoding import Row, encode_rows, row_size
from headrace.records.batch import (
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    Codec,
    join_batch,
    read_header,
    read_records,
    stamp_producer,
)
from headrace.records.codecs import compress
from headrace.records.header import HEADER_BYTES, TRANSACTIONAL


class RecordMetadata(NamedTuple):
    """Where a record was written. The offset is -1 where nobody was asked (acks=0)."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class _Written(NamedTuple):
    base_offset: int
    append_time_ms: int


class _Split(NamedTuple):
    """The batch was sent in parts, which have outcomes of their own."""

    parts: tuple["ProducerBatch", ...]


# One for all batches: it is held for a moment, when a batch is resolved or first waited for.
_RESOLVING: Final = threading.Lock()


class ProducerBatch:
    """Records of one partition that are sent together."""

    __slots__ = (
        "_callbacks",
        "_outcome",
        "attempts",
        "base_sequence",
        "base_timestamp",
        "body",
        "codec",
        "count",
        "created_ms",
        "give_back",
        "is_closed",
        "is_in_transaction",
        "is_on_wire",
        "limit",
        "max_timestamp",
        "partition",
        "place",
        "producer_epoch",
        "producer_id",
        "retry_at_ms",
        "room",
        "rows",
        "timestamps",
        "whole",
    )

    def __init__(self, partition: TopicPartition, created_ms: int, limit: int = HEADER_BYTES) -> None:
        self.partition = partition
        self.created_ms = created_ms
        self.rows: list[Row] = []
        self.limit = limit  # bytes that it may grow to: so much memory is taken for it
        self.room = limit - HEADER_BYTES  # what is left of them; none once it is closed
        self.is_closed = False  # takes no more rows
        self.is_on_wire = False
        self.is_in_transaction = False
        self.attempts = 0
        self.retry_at_ms = 0.0
        self.body: Buffer | None = None
        self.codec = 0
        self.count = 0
        self.base_timestamp = self.max_timestamp = -1
        self.timestamps: list[int] = []  # none where the batch was encoded elsewhere
        self.whole: bytearray | memoryview | None = None
        self.give_back: Callable[[], None] | None = None  # for memory that is used again
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.base_sequence = NO_SEQUENCE
        self.place = 0  # among the batches of its partition that have had a sequence
        self._outcome: _Written | _Split | BaseException | None = None
        self._callbacks: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return (
            f"<batch of {self.count or len(self.rows)} for {self.partition}, sequence {self.base_sequence}>"
        )

    @property
    def size(self) -> int:
        """About how many bytes its rows take; never fewer than they do."""
        return self.limit - self.room

    def close(self) -> int:
        """Take no more rows; returns the bytes that it had room for."""
        unused, self.room = self.room, 0
        self.limit -= unused
        self.is_closed = True
        return unused

    @classmethod
    def of_bytes(
        cls, partition: TopicPartition, created_ms: int, data: bytearray | memoryview
    ) -> "ProducerBatch":
        """A batch that was encoded elsewhere; its header is filled in here."""
        batch = cls(partition, created_ms, len(data))
        header = read_header(data)
        batch.is_closed = True
        batch.room = 0
        batch.whole = data
        batch.codec = header.codec
        batch.count = header.record_count
        batch.base_timestamp, batch.max_timestamp = header.base_timestamp, header.max_timestamp
        return batch

    def encode(self) -> None:
        """Turn rows into bytes. The rows stay until that is done: a caller's thread may be interrupted."""
        rows = self.rows
        self.count = len(rows)
        self.timestamps = [row[0] for row in rows]
        self.base_timestamp = self.timestamps[0]
        self.max_timestamp = max(self.timestamps)
        self.body = encode_rows(rows, self.base_timestamp)
        self.rows = []

    def seal(self, codec: int, level: int | None) -> None:
        """Turn rows into bytes. Again is harmless."""
        self.is_closed = True
        if self.whole is not None:
            return
        if self.body is None:
            self.encode()
        assert self.body is not None
        if codec != Codec.NONE and not self.codec:
            self.body = compress(codec, self.body, level)
            self.codec = codec

    def let_go(self) -> None:
        """A broker has answered for the batch: nothing will read its bytes any more."""
        self.body = self.whole = None
        if self.give_back is not None:
            self.give_back()
            self.give_back = None

    def encoded(self) -> bytearray | memoryview:
        """The batch as it goes over the wire."""
        if self.whole is not None:
            stamp_producer(self.whole, 0, self.producer_id, self.producer_epoch, self.base_sequence)
            return self.whole
        assert self.body is not None, "only a sealed batch can be sent"
        header = BatchHeader(
            base_offset=0,
            length=0,
            leader_epoch=-1,
            magic=MAGIC,
            crc=0,
            attributes=self.codec | (TRANSACTIONAL if self.is_in_transaction else 0),
            last_offset_delta=self.count - 1,
            base_timestamp=self.base_timestamp,
            max_timestamp=self.max_timestamp,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            record_count=self.count,
        )
        return join_batch(header, self.body)

    # The outcome

    @property
    def is_done(self) -> bool:
        return self._outcome is not None

    def resolve(self, outcome: _Written | _Split | BaseException) -> bool:
        """Tell all who wait; only the first outcome counts."""
        with _RESOLVING:
            if self._outcome is not None:
                return False
            self._outcome = outcome
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()
        return True

    def written(self, base_offset: int, append_time_ms: int = -1) -> bool:
        return self.resolve(_Written(base_offset, append_time_ms))

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call back once there is an outcome, in the thread that brings it; at once where there is one."""
        with _RESOLVING:
            if self._outcome is None:
                self._callbacks.append(callback)
                return
        callback()

    def error(self, index: int) -> BaseException | None:
        """What went wrong with the record at a place."""
        if isinstance(self._outcome, _Split):
            part, within = self._part(self._outcome, index)
            return part.error(within)
        return self._outcome if isinstance(self._outcome, BaseException) else None

    def metadata(self, index: int) -> RecordMetadata:
        """Where the record at a place is; raises what went wrong."""
        outcome = self._outcome
        if isinstance(outcome, _Split):
            part, within = self._part(outcome, index)
            return part.metadata(within)
        if isinstance(outcome, BaseException):
            raise outcome
        assert outcome is not None, "the batch has no outcome yet"
        timestamp = outcome.append_time_ms
        if timestamp < 0:
            timestamp = self.timestamps[index] if self.timestamps else self.base_timestamp
        offset = outcome.base_offset + index if outcome.base_offset >= 0 else -1
        return RecordMetadata(*self.partition, offset, timestamp)

    def runs(self) -> Iterator[tuple[RecordMetadata, int]]:
        """Where the first record is and how many follow each other from there, for each part of the batch."""
        if isinstance(self._outcome, _Split):
            for part in self._outcome.parts:
                yield from part.runs()
        else:
            yield self.metadata(0), self.count

    def _part(self, split: _Split, index: int) -> tuple["ProducerBatch", int]:
        for part in split.parts:
            if index < part.count:
                return part, index
            index -= part.count
        raise AssertionError("a record is in none of the parts of its batch")

    def split(self) -> tuple["ProducerBatch", ...]:
        """Two halves, with the sequences that their records have already; this batch ends when they do."""
        rows: list[Row] = [
            (each.timestamp, each.key, each.value, each.headers) for each in read_records(self.encoded())
        ]
        halves = []
        for own in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
            half = ProducerBatch(self.partition, self.created_ms)
            half.rows = own
            half.limit += sum(map(row_size, own))
            half.attempts = self.attempts
            half.is_in_transaction = self.is_in_transaction
            half.seal(self.codec, None)
            half.producer_id, half.producer_epoch = self.producer_id, self.producer_epoch
            halves.append(half)
        first, second = halves
        if self.base_sequence != NO_SEQUENCE:
            first.base_sequence = self.base_sequence
            second.base_sequence = (self.base_sequence + first.count) & 0x7FFFFFFF
        parts = (first, second)

        def decided() -> None:
            if first.is_done and second.is_done:
                self.resolve(_Split(parts))

        for half in parts:
            half.when_done(decided)
        return parts


class Delivery:
    """The future of one record: `result()` in a thread, `await` on a loop."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: ProducerBatch, index: int) -> None:
        self._batch = batch
        self._index = index

    def done(self) -> bool:
        """Whether the record is written, or has failed."""
        return self._batch.is_done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait until the record is written; raises what went wrong, TimedOutError after `timeout` seconds."""
        self._wait(timeout)
        return self._batch.metadata(self._index)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait until the record is written or has failed; what went wrong, None where nothing did."""
        self._wait(timeout)
        return self._batch.error(self._index)

    def batch_results(self, timeout: float | None = None) -> list[tuple[RecordMetadata, int]]:
        """For all records that went in the same batch: where the first is and how many there are.

        More than one entry where the batch was sent in parts; raises where any record failed.
        """
        self._wait(timeout)
        return list(self._batch.runs())

    def add_done_callback(self, callback: Callable[["Delivery"], None]) -> None:
        """Call back with this future once it is done; in the producer's own thread, so be quick."""
        self._batch.when_done(lambda: callback(self))

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self._batch.is_done:
            loop = asyncio.get_running_loop()
            waiter: asyncio.Future[None] = loop.create_future()

            def tell() -> None:
                if not waiter.done():
                    waiter.set_result(None)

            def is_done() -> None:
                loop.call_soon_threadsafe(tell)

            self._batch.when_done(is_done)
            yield from waiter.__await__()
        return self._batch.metadata(self._index)

    def _wait(self, timeout: float | None) -> None:
        if self._batch.is_done:
            return
        done = threading.Event()
        self._batch.when_done(done.set)
        if not done.wait(timeout):
            raise TimedOutError(f"a record for {self._batch.partition} is not written after {timeout} s")
