"""Writes rows into record batches: a kernel fills a buffer, and the batch is that buffer.

There is a `LaneWriter` for each partition. Its batches are as large as the form allows, over the borders of
the tables' chunks, and come out one by one, so that who sends them can do so while the next one is written.
The header has everything but the CRC, and the producer's numbers are none: whoever knows those stamps them,
and the check sum with them (`stamp_producer`).

Buffers come from outside, because touching fresh memory costs more than writing a batch into it: a producer
gives those again that have been sent.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.records.codecs import Codec, compress
from headrace.records.columns_arrow import column_kernels
from headrace.records.columns_spans import Spans
from headrace.records.header import (
    HEADER_BYTES,
    LENGTH_OFFSET,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    join_batch,
)
from headrace.records.kernels_columns_plain import STATE_SIZE

# Kafka's message.max.bytes is 1 MiB for a packed batch; more than this unpacked helps no codec.
BATCH_BYTES: Final = 1024 * 1024
BATCH_BYTES_MAX: Final = 1 << 30
# The most a record's own numbers take: size, attributes, timestamp, offset, two lengths, count of headers.
_RECORD_OVERHEAD: Final = 5 + 1 + 10 + 5 + 5 + 5 + 5
_HEADER_OVERHEAD: Final = 5 + 5

Memory = NDArray[np.uint8]
Take = Callable[[int], Memory]


@dataclass(frozen=True, slots=True)
class BatchForm:
    """How batches are made, and whose they are."""

    codec: int = Codec.NONE
    level: int | None = None
    batch_bytes: int = BATCH_BYTES
    timestamp_ms: int = NO_TIMESTAMP  # of rows that have none
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    transactional: bool = False

    def __post_init__(self) -> None:
        if not HEADER_BYTES < self.batch_bytes <= BATCH_BYTES_MAX:
            raise ValueError(
                f"batches can have {HEADER_BYTES + 1} to {BATCH_BYTES_MAX} bytes, not {self.batch_bytes}"
            )


class Rows(NamedTuple):
    """The columns of records, as the kernel takes them."""

    timestamps: NDArray[np.int64]
    key: Spans
    value: Spans
    header_ends: NDArray[np.int64]
    names: Spans
    contents: Spans

    def bytes_max(self) -> NDArray[np.int64]:
        """The most that each row can take as a record."""
        most = np.maximum(self.value.size, 0)
        most += _RECORD_OVERHEAD
        if len(self.key.data):
            most += np.maximum(self.key.size, 0)
        if len(self.header_ends):
            each = np.maximum(self.contents.size, 0) + self.names.size + _HEADER_OVERHEAD
            total = np.concatenate([np.zeros(1, np.int64), np.cumsum(each)])[self.header_ends]
            most += np.diff(total)
        return most


class Written(NamedTuple):
    """A batch without a CRC."""

    lane: int
    record_count: int
    data: bytearray | memoryview
    memory: Memory | None
    """The buffer that the data are in; None where they are not."""


def fresh_memory(size: int) -> Memory:
    return np.empty(size, np.uint8)


class LaneWriter:
    """Writes the batches of one partition. `bytes_max` is the most that all its rows can take, if known."""

    def __init__(self, lane: int, form: BatchForm, bytes_max: int | None, take: Take) -> None:
        self._lane = lane
        self._form = form
        self._left = BATCH_BYTES_MAX if bytes_max is None else bytes_max
        self._is_bounded = bytes_max is not None
        self._take = take
        self._out: Memory | None = None
        self._state: NDArray[np.int64] = np.zeros(STATE_SIZE, np.int64)

    def write(self, rows: Rows, order: NDArray[np.int64]) -> Iterator[Written]:
        """Add the rows that `order` names; the batches that are full."""
        encode, form, state = column_kernels().encode_rows, self._form, self._state
        fields = (*rows.key, *rows.value, rows.header_ends, *rows.names, *rows.contents)
        place = 0
        while True:
            if self._out is None:
                self._begin(HEADER_BYTES + min(self._left, form.batch_bytes - HEADER_BYTES))
            place = encode(place, order, rows.timestamps, *fields, form.batch_bytes, state, self._out)
            if place == len(order):
                return
            if state[1]:
                yield self._finished()
            else:  # a record that is larger than a batch
                self._begin(int(state[4]))

    def finish(self) -> Iterator[Written]:
        """The last batch."""
        if self._state[1]:
            yield self._finished()

    def _begin(self, size: int) -> None:
        self._out = self._take(size)
        self._state[:] = HEADER_BYTES, 0, 0, 0, 0

    def _finished(self) -> Written:
        assert self._out is not None
        end, count, base_timestamp, max_timestamp, _ = self._state.tolist()
        data, memory = self._out.data[:end], self._out
        self._out = None
        self._state[1] = 0
        if self._is_bounded:
            self._left -= end - HEADER_BYTES
        header = self._header(count, base_timestamp, max_timestamp)
        if self._form.codec != Codec.NONE:
            packed = compress(self._form.codec, data[HEADER_BYTES:], self._form.level)
            return Written(self._lane, count, join_batch(header, packed), None)
        data[:HEADER_BYTES] = join_batch(header, b"")
        data[LENGTH_OFFSET:LOG_OVERHEAD] = (end - LOG_OVERHEAD).to_bytes(4, "big")
        return Written(self._lane, count, data, memory)

    def _header(self, count: int, base_timestamp: int, max_timestamp: int) -> BatchHeader:
        return BatchHeader(
            base_offset=0,
            length=0,
            leader_epoch=-1,
            magic=MAGIC,
            crc=0,
            attributes=self._form.codec | (TRANSACTIONAL if self._form.transactional else 0),
            last_offset_delta=count - 1,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
            base_sequence=NO_SEQUENCE,
            record_count=count,
        )
