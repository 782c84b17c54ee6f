"""Arrow columns to record batches, ready to be sent.

The columns are `key`, `value`, `headers` and `timestamp`; each may be missing, others are ignored. Which
partition a row goes to is said by a column `partition`, or by its key as every Kafka producer does it. All
columns are checked before the first batch is written. One table becomes batches of its own (`write_batches`),
or many do that follow each other (`BatchStream`).

There is a `LaneWriter` for each partition: a kernel fills a buffer, and the batch is that buffer. Batches are
as large as the form allows, over the borders of the tables' chunks, and come out one by one, so that they can
be sent while the next one is written. The header has everything but the CRC, and the producer's numbers are
none: whoever knows those stamps them, and the check sum with them (`stamp_producer`).

Buffers come from outside, because touching fresh memory costs more than writing a batch into it: a producer
gives those again that have been sent.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.records.codecs import Codec, compress
from headrace.records.columns.arrow_spans import (
    ColumnSpans,
    header_spans,
    no_values,
    timestamps_of,
    value_spans,
)
from headrace.records.columns.schema import arrow, column_kernels
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
    stamp_producer,
)
from headrace.records.kernels.choice import kernels, load_compiled

# Kafka's message.max.bytes is 1 MiB for a packed batch; more than this unpacked helps no codec.
BATCH_BYTES: Final = 1024 * 1024
BATCH_BYTES_MAX: Final = 1 << 30
# The most a record's own numbers take: size, attributes, timestamp, offset, two lengths, count of headers.
_RECORD_OVERHEAD: Final = 5 + 1 + 10 + 5 + 5 + 5 + 5
_HEADER_OVERHEAD: Final = 5 + 5

STATE_SIZE: Final = 5
"""What `encode_rows` keeps of a batch: where its next byte goes, its records so far, the timestamp of the
first and the greatest, and where the record that did not fit would have ended."""

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


class RecordColumns(NamedTuple):
    """The columns of records, as the kernel takes them."""

    timestamps: NDArray[np.int64]
    key: ColumnSpans
    value: ColumnSpans
    header_ends: NDArray[np.int64]
    names: ColumnSpans
    contents: ColumnSpans

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


class EncodedBatch(NamedTuple):
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

    def write(self, rows: RecordColumns, order: NDArray[np.int64]) -> Iterator[EncodedBatch]:
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

    def finish(self) -> Iterator[EncodedBatch]:
        """The last batch."""
        if self._state[1]:
            yield self._finished()

    def _begin(self, size: int) -> None:
        self._out = self._take(size)
        self._state[:] = HEADER_BYTES, 0, 0, 0, 0

    def _finished(self) -> EncodedBatch:
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
            return EncodedBatch(self._lane, count, join_batch(header, packed), None)
        data[:HEADER_BYTES] = join_batch(header, b"")
        data[LENGTH_OFFSET:LOG_OVERHEAD] = (end - LOG_OVERHEAD).to_bytes(4, "big")
        return EncodedBatch(self._lane, count, data, memory)

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


_TIMESTAMP_MAX: Final = 1 << 62  # the differences of any two still fit 64 bits
# Rows that are shared out to partitions at once: many for each, so that a call for each does not show.
_SHARED_ROWS: Final = 64 * 1024
_SHARED_ROWS_EACH: Final = 256
# Numbers of 16 bits are sorted digit by digit, several times as fast as any others.
_FEW_LANES: Final = 1 << 15

Batch = bytearray | memoryview
_Parts = list[tuple[RecordColumns, NDArray[np.int32] | int]]


def batches_from_arrow(
    data: Any,
    *,
    codec: int = Codec.NONE,
    level: int | None = None,
    batch_bytes: int = BATCH_BYTES,
    timestamp_ms: int = NO_TIMESTAMP,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
) -> list[Batch]:
    """All rows of a pyarrow.Table or RecordBatch as batches for one partition, in their order.

    A batch has at most `batch_bytes` before compression, except one of a single larger record. Sequences go
    on from batch to batch. ValueError for columns that records cannot be made of.
    """
    form = BatchForm(
        codec, level, batch_bytes, timestamp_ms, producer_id, producer_epoch, base_sequence, transactional
    )
    parts: _Parts = [(rows, 0) for rows in _checked(data, form.timestamp_ms)]
    return _stamped(_written(parts, form, fresh_memory), {}, form).get(0, [])


def batches_by_partition(
    data: Any,
    partition_count: int,
    *,
    keyless_partition: int = 0,
    base_sequences: Mapping[int, int] | None = None,
    form: BatchForm | None = None,
) -> dict[int, list[Batch]]:
    """Rows as batches for each partition that gets any, each partition's rows in their order.

    A row without a partition goes where its key says, and without a key to `keyless_partition`.
    """
    form = BatchForm() if form is None else form
    written = write_batches(data, partition_count, keyless_partition=keyless_partition, form=form)
    return _stamped(written, base_sequences or {}, form)


def write_batches(
    data: Any,
    partition_count: int,
    *,
    keyless_partition: int,
    form: BatchForm,
    take: Take = fresh_memory,
) -> Iterator[EncodedBatch]:
    """The same one by one, without a producer's numbers and CRC, in memory that `take` gives.

    ValueError at once for columns that records cannot be made of.
    """
    return _written(_parts(data, partition_count, keyless_partition, form.timestamp_ms), form, take)


class BatchStream:
    """The same for tables that follow each other: a batch that is not full waits for rows of the next one.

    So batches are as large as the form allows, however small the tables are and however many partitions share
    them. Each partition that has got rows holds one buffer of that size.
    """

    def __init__(self, form: BatchForm, take: Take = fresh_memory) -> None:
        self._form = form
        self._take = take
        self._writers: dict[int, LaneWriter] = {}

    def write(
        self, data: Any, partition_count: int, *, keyless_partition: int, timestamp_ms: int
    ) -> Iterator[EncodedBatch]:
        """The batches that these rows fill; ValueError at once where no records can be made of them."""
        return _filled(_parts(data, partition_count, keyless_partition, timestamp_ms), self._writer)

    def finish(self) -> Iterator[EncodedBatch]:
        """What is begun and not full."""
        for writer in self._writers.values():
            yield from writer.finish()

    def _writer(self, lane: int) -> LaneWriter:
        writer = self._writers.get(lane)
        if writer is None:
            writer = self._writers[lane] = LaneWriter(lane, self._form, None, self._take)
        return writer


def partition_for_keys(keys: Any, partition_count: int) -> NDArray[np.int32]:
    """The partition that Kafka's producers choose for each key; -1 for a null, which has none."""
    found = [_hashed(value_spans(chunk, "key"), partition_count) for chunk in _chunks(keys)]
    return np.concatenate([np.empty(0, np.int32), *found])


def _chunks(column: Any) -> list[Any]:
    return list(column.chunks) if isinstance(column, arrow().ChunkedArray) else [column]


def _hashed(keys: ColumnSpans, partition_count: int) -> NDArray[np.int32]:
    if partition_count < 1:
        raise ValueError(f"there is no partition to choose among {partition_count}")
    load_compiled()
    hashes = np.empty(len(keys.at), np.int32)
    kernels.murmur2_spans(keys.data.data, keys.at.data, keys.size.data, hashes.data)
    chosen = (hashes & 0x7FFFFFFF) % np.int32(partition_count)
    chosen[keys.size < 0] = -1
    return chosen


def _lanes(rows: Any, keys: ColumnSpans, partition_count: int, keyless: int) -> NDArray[np.int32] | int:
    """The partition of each row; a single number where it is the same for all."""
    is_said = "partition" in rows.schema.names
    if not is_said and (partition_count == 1 or "key" not in rows.schema.names):
        return keyless
    chosen = _hashed(keys, partition_count)
    chosen[chosen < 0] = keyless
    if is_said:
        said = rows.column("partition").cast(arrow().int32()).fill_null(-1).to_numpy()
        chosen = np.where(said < 0, chosen, said).astype(np.int32)
    if len(chosen) and not 0 <= int(chosen.min()) <= int(chosen.max()) < partition_count:
        raise ValueError(f"partitions go from 0 to {partition_count - 1}; a row has {chosen.max()}")
    return chosen


def _record_batches(data: Any) -> list[Any]:
    """A table's rows in as few record batches as its types allow."""
    if isinstance(data, arrow().Table):
        return [each for each in data.combine_chunks().to_batches() if each.num_rows]
    return [data] if data.num_rows else []


def _checked(data: Any, timestamp_ms: int) -> list[RecordColumns]:
    return [_rows(each, timestamp_ms) for each in _record_batches(data)]


def _parts(data: Any, partition_count: int, keyless_partition: int, timestamp_ms: int) -> _Parts:
    """Rows with the partition of each, or the one of all of them."""
    return [
        (rows, _lanes(given, rows.key, partition_count, keyless_partition))
        for given, rows in zip(_record_batches(data), _checked(data, timestamp_ms), strict=True)
    ]


def _rows(rows: Any, timestamp_ms: int) -> RecordColumns:
    count, columns = rows.num_rows, dict(zip(rows.schema.names, rows.columns, strict=True))
    key, value = (
        value_spans(columns[name], name) if name in columns else no_values(count) for name in ("key", "value")
    )
    if "timestamp" in columns:
        timestamps = timestamps_of(columns["timestamp"], timestamp_ms)
        if count and not -1 <= int(timestamps.min()) <= int(timestamps.max()) < _TIMESTAMP_MAX:
            raise ValueError("column 'timestamp' has a time before 1970 or beyond all calendars")
    else:
        timestamps = np.full(count, timestamp_ms, np.int64)
    if "headers" not in columns:
        return RecordColumns(timestamps, key, value, np.empty(0, np.int64), no_values(0), no_values(0))
    return RecordColumns(timestamps, key, value, *header_spans(columns["headers"]))


def _written(parts: _Parts, form: BatchForm, take: Take) -> Iterator[EncodedBatch]:
    """The batches of all parts, as they become full; what is left of each lane at the end."""
    most = _most_bytes(parts)
    writers = {lane: LaneWriter(lane, form, bytes_max, take) for lane, bytes_max in most.items()}
    yield from _filled(parts, writers.__getitem__)
    for writer in writers.values():
        yield from writer.finish()


def _filled(parts: _Parts, writer_of: Callable[[int], LaneWriter]) -> Iterator[EncodedBatch]:
    """Hand each row to the writer of its lane; the batches that become full."""
    for rows, lanes in parts:
        if isinstance(lanes, int):
            yield from writer_of(lanes).write(rows, np.arange(len(rows.timestamps)))
            continue
        lane_count = int(lanes.max(initial=0)) + 1
        step = max(_SHARED_ROWS, _SHARED_ROWS_EACH * lane_count)
        for first in range(0, len(lanes), step):
            own = lanes[first : first + step]
            order = np.argsort(own.astype(np.int16) if lane_count <= _FEW_LANES else own, kind="stable")
            if first:
                order += first
            counts = np.bincount(own)
            ends = np.cumsum(counts)
            for lane in np.flatnonzero(counts).tolist():
                end = int(ends[lane])
                yield from writer_of(lane).write(rows, order[end - int(counts[lane]) : end])


def _most_bytes(parts: _Parts) -> dict[int, int]:
    """The most that the rows of each lane can take."""
    most: dict[int, int] = {}
    for rows, lanes in parts:
        if isinstance(lanes, int):
            most[lanes] = most.get(lanes, 0) + int(rows.bytes_max().sum())
            continue
        sums = np.bincount(lanes, rows.bytes_max())
        for lane in np.flatnonzero(sums).tolist():
            most[lane] = most.get(lane, 0) + int(sums[lane])
    return most


def _stamped(
    written: Iterator[EncodedBatch], base_sequences: Mapping[int, int], form: BatchForm
) -> dict[int, list[Batch]]:
    """The batches of each lane with the producer's numbers, and sequences that go on."""
    made: dict[int, list[Batch]] = {}
    before: dict[int, int] = {}
    for lane, count, data, _ in written:
        sequence = base_sequences.get(lane, form.base_sequence)
        if sequence != NO_SEQUENCE:
            sequence = (sequence + before.get(lane, 0)) & 0x7FFFFFFF  # from 2^31-1 back to 0
        stamp_producer(data, 0, form.producer_id, form.producer_epoch, sequence)
        before[lane] = before.get(lane, 0) + count
        made.setdefault(lane, []).append(data)
    return made
