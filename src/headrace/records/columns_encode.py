"""Arrow columns as record batches, ready to be sent.

The columns are `key`, `value`, `headers` and `timestamp`; each may be missing, others are ignored. Which
partition a row goes to is said by a column `partition`, or by its key as every Kafka producer does it. All
columns are checked before the first batch is written; `columns_write` writes them.

One table becomes batches of its own (`write_batches`), or many do that follow each other (`BatchStream`).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headrace.records.codecs import Codec
from headrace.records.columns_arrow import arrow
from headrace.records.columns_spans import Spans, header_spans, no_values, timestamps_of, value_spans
from headrace.records.columns_write import (
    BATCH_BYTES,
    BatchForm,
    LaneWriter,
    Rows,
    Take,
    Written,
    fresh_memory,
)
from headrace.records.header import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    stamp_producer,
)
from headrace.records.kernel_choice import kernels, load_compiled

_TIMESTAMP_MAX: Final = 1 << 62  # the differences of any two still fit 64 bits
# Rows that are shared out to partitions at once: many for each, so that a call for each does not show.
_SHARED_ROWS: Final = 64 * 1024
_SHARED_ROWS_EACH: Final = 256
# Numbers of 16 bits are sorted digit by digit, several times as fast as any others.
_FEW_LANES: Final = 1 << 15

Batch = bytearray | memoryview
_Parts = list[tuple[Rows, NDArray[np.int32] | int]]


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
) -> Iterator[Written]:
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
    ) -> Iterator[Written]:
        """The batches that these rows fill; ValueError at once where no records can be made of them."""
        return _filled(_parts(data, partition_count, keyless_partition, timestamp_ms), self._writer)

    def finish(self) -> Iterator[Written]:
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


def _hashed(keys: Spans, partition_count: int) -> NDArray[np.int32]:
    if partition_count < 1:
        raise ValueError(f"there is no partition to choose among {partition_count}")
    load_compiled()
    hashes = np.empty(len(keys.at), np.int32)
    kernels.murmur2_spans(keys.data.data, keys.at.data, keys.size.data, hashes.data)
    chosen = (hashes & 0x7FFFFFFF) % np.int32(partition_count)
    chosen[keys.size < 0] = -1
    return chosen


def _lanes(rows: Any, keys: Spans, partition_count: int, keyless: int) -> NDArray[np.int32] | int:
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


def _checked(data: Any, timestamp_ms: int) -> list[Rows]:
    return [_rows(each, timestamp_ms) for each in _record_batches(data)]


def _parts(data: Any, partition_count: int, keyless_partition: int, timestamp_ms: int) -> _Parts:
    """Rows with the partition of each, or the one of all of them."""
    return [
        (rows, _lanes(given, rows.key, partition_count, keyless_partition))
        for given, rows in zip(_record_batches(data), _checked(data, timestamp_ms), strict=True)
    ]


def _rows(rows: Any, timestamp_ms: int) -> Rows:
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
        return Rows(timestamps, key, value, np.empty(0, np.int64), no_values(0), no_values(0))
    return Rows(timestamps, key, value, *header_spans(columns["headers"]))


def _written(parts: _Parts, form: BatchForm, take: Take) -> Iterator[Written]:
    """The batches of all parts, as they become full; what is left of each lane at the end."""
    most = _most_bytes(parts)
    writers = {lane: LaneWriter(lane, form, bytes_max, take) for lane, bytes_max in most.items()}
    yield from _filled(parts, writers.__getitem__)
    for writer in writers.values():
        yield from writer.finish()


def _filled(parts: _Parts, writer_of: Callable[[int], LaneWriter]) -> Iterator[Written]:
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
    written: Iterator[Written], base_sequences: Mapping[int, int], form: BatchForm
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
