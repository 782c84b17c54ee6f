"""Arrow columns as record batches, ready to be sent.

The columns are `key`, `value`, `headers` and `timestamp`; each may be missing, others are ignored. One kernel
writes all records of one partition, batch after batch with room for the headers in between, into one buffer.
What remains per batch is a header, a CRC and where wanted compression. Which partition a row goes to is said
by a column `partition`, or by its key as every Kafka producer does it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.base.chunks import Buffer
from headrace.records.codecs import Codec, compress
from headrace.records.columns_arrow import arrow, column_kernels
from headrace.records.columns_spans import Spans, header_spans, no_values, timestamps_of, value_spans
from headrace.records.header import (
    HEADER_BYTES,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    join_batch,
)
from headrace.records.kernel_choice import kernels, load_compiled
from headrace.records.kernels_columns_plain import MADE_COLUMNS, STATE_COLUMNS

# Kafka's message.max.bytes is 1 MiB for a packed batch; more than this unpacked helps no codec.
BATCH_BYTES: Final = 1024 * 1024
BATCH_BYTES_MAX: Final = 1 << 30
# The most a record's own numbers take: size, attributes, timestamp, offset, two lengths, count of headers.
_RECORD_OVERHEAD: Final = 5 + 1 + 10 + 5 + 5 + 5 + 5
_HEADER_OVERHEAD: Final = 5 + 5
_TIMESTAMP_MAX: Final = 1 << 62  # the differences of any two still fit 64 bits


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
) -> list[bytearray]:
    """All rows of a pyarrow.Table or RecordBatch as batches for one partition, in their order.

    A batch has at most `batch_bytes` before compression, except one of a single larger record. Sequences go
    on from batch to batch. ValueError for columns that records cannot be made of.
    """
    form = BatchForm(
        codec, level, batch_bytes, timestamp_ms, producer_id, producer_epoch, base_sequence, transactional
    )
    encoder = _Encoder(form, 1, {})
    return [
        batch
        for rows in _record_batches(data)
        for _, batch in encoder.encode(_Rows.of(rows, timestamp_ms), np.zeros(rows.num_rows, np.int32))
    ]


def batches_by_partition(
    data: Any,
    partition_count: int,
    *,
    keyless_partition: int = 0,
    base_sequences: Mapping[int, int] | None = None,
    form: BatchForm | None = None,
) -> dict[int, list[bytearray]]:
    """Rows as batches for each partition that gets any, each partition's rows in their order.

    A row without a partition goes where its key says, and without a key to `keyless_partition`.
    """
    form = BatchForm() if form is None else form
    encoder = _Encoder(form, partition_count, {} if base_sequences is None else base_sequences)
    made: dict[int, list[bytearray]] = {}
    for rows in _record_batches(data):
        columns = _Rows.of(rows, form.timestamp_ms)
        chosen = _partitions(rows, columns.key, partition_count, keyless_partition)
        for partition, batch in encoder.encode(columns, chosen):
            made.setdefault(partition, []).append(batch)
    return made


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


def _partitions(rows: Any, keys: Spans, partition_count: int, keyless: int) -> NDArray[np.int32]:
    chosen = _hashed(keys, partition_count)
    chosen[chosen < 0] = keyless
    if "partition" in rows.schema.names:
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


class _Rows(NamedTuple):
    """The columns of records, as the kernel takes them."""

    timestamps: NDArray[np.int64]
    key: Spans
    value: Spans
    header_ends: NDArray[np.int64]
    names: Spans
    contents: Spans

    @classmethod
    def of(cls, rows: Any, timestamp_ms: int) -> "_Rows":
        count, columns = rows.num_rows, dict(zip(rows.schema.names, rows.columns, strict=True))
        key, value = (
            value_spans(columns[name], name) if name in columns else no_values(count)
            for name in ("key", "value")
        )
        timestamps = (
            timestamps_of(columns["timestamp"], timestamp_ms)
            if "timestamp" in columns
            else np.full(count, timestamp_ms, np.int64)
        )
        if count and not -1 <= int(timestamps.min()) <= int(timestamps.max()) < _TIMESTAMP_MAX:
            raise ValueError("column 'timestamp' has a time before 1970 or beyond all calendars")
        if "headers" not in columns:
            return cls(timestamps, key, value, np.empty(0, np.int64), no_values(0), no_values(0))
        return cls(timestamps, key, value, *header_spans(columns["headers"]))

    def bytes_max(self) -> NDArray[np.int64]:
        """The most that each row can take as a record."""
        most = np.maximum(self.key.size, 0) + np.maximum(self.value.size, 0) + _RECORD_OVERHEAD
        if len(self.header_ends):
            each = np.maximum(self.contents.size, 0) + self.names.size + _HEADER_OVERHEAD
            total = np.concatenate([np.zeros(1, np.int64), np.cumsum(each)])[self.header_ends]
            most += np.diff(total)
        return most


class _Encoder:
    """Writes rows into batches, a lane for each partition; sequences go on from call to call."""

    def __init__(self, form: BatchForm, lane_count: int, sequences: Mapping[int, int]) -> None:
        if not HEADER_BYTES < form.batch_bytes <= BATCH_BYTES_MAX:
            raise ValueError(
                f"batches can have {HEADER_BYTES + 1} to {BATCH_BYTES_MAX} bytes, not {form.batch_bytes}"
            )
        self._form = form
        self._sequences = sequences
        self._rows_before: NDArray[np.int64] = np.zeros(lane_count, np.int64)

    def encode(self, columns: _Rows, lanes: NDArray[np.int32]) -> Iterator[tuple[int, bytearray]]:
        """Each batch with its lane."""
        lane_count, batch_bytes = len(self._rows_before), self._form.batch_bytes
        rows = np.bincount(lanes, minlength=lane_count)
        most = np.bincount(lanes, columns.bytes_max(), minlength=lane_count).astype(np.int64)
        # Two batches in a row are larger than the limit together, or they would be one.
        batches_max = np.minimum(rows, 2 * most // (batch_bytes - HEADER_BYTES) + 2)
        ends = np.cumsum(most + batches_max * HEADER_BYTES)
        out = np.empty(int(ends[-1]), np.uint8)
        table = np.empty((int(batches_max.sum()), MADE_COLUMNS), np.int64)
        states = np.empty((lane_count, STATE_COLUMNS), np.int64)
        states[0, 0], states[1:, 0], states[:, 1], states[:, 2] = 0, ends[:-1], -1, self._rows_before
        count = column_kernels().encode_rows(
            lanes,
            columns.timestamps,
            *columns.key,
            *columns.value,
            columns.header_ends,
            *columns.names,
            *columns.contents,
            batch_bytes,
            states,
            out,
            table,
        )
        self._rows_before = states[:, 2].copy()
        for start, end, before, row_count, base_timestamp, max_timestamp, lane in table[:count].tolist():
            sequence = self._sequences.get(lane, self._form.base_sequence)
            if sequence != NO_SEQUENCE:
                sequence = (sequence + before) & 0x7FFFFFFF  # from 2^31-1 back to 0
            header = self._header(row_count, base_timestamp, max_timestamp, sequence)
            yield lane, self._joined(header, out.data[start + HEADER_BYTES : end])

    def _header(self, count: int, base_timestamp: int, max_timestamp: int, sequence: int) -> BatchHeader:
        form = self._form
        return BatchHeader(
            base_offset=0,
            length=0,
            leader_epoch=-1,
            magic=MAGIC,
            crc=0,
            attributes=form.codec | (TRANSACTIONAL if form.transactional else 0),
            last_offset_delta=count - 1,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=form.producer_id,
            producer_epoch=form.producer_epoch,
            base_sequence=sequence,
            record_count=count,
        )

    def _joined(self, header: BatchHeader, body: Buffer) -> bytearray:
        packed = (
            body if self._form.codec == Codec.NONE else compress(self._form.codec, body, self._form.level)
        )
        return join_batch(header, packed)
