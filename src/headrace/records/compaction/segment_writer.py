"""The writer that leaves out what is superseded.

A `SegmentWriter` takes windows of old segments and gives the bytes of the new one, with its indexes. Batches
that are compressed or part of a transaction are handed back: the caller decides, unpacks, and gives the
records.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from headrace.base.chunks import Buffer
from headrace.records.codecs import Codec, compress
from headrace.records.compaction.layout import (
    OTHERS,
    BadBatchError,
    PackedColumn,
    Parameter,
    StopReason,
    WriterState,
    bad_record,
)
from headrace.records.compaction.offset_map import OffsetMap, SegmentPart
from headrace.records.compaction.packed_batches import UnpackedBatches
from headrace.records.header import (
    CODEC_MASK,
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    join_batch,
    read_header,
)
from headrace.records.kernels.choice import in_use
from headrace.records.kernels.compaction_packed import keep_packed, put_packed
from headrace.records.kernels.compaction_rewriting import (
    clean_batches,
    keep_records,
    note_batch,
    shift_records,
)

ROOM_FACTOR: Final = 3
"""New timestamps make a batch of the smallest delete markers grow so much, and no more."""

HORIZON_MS_MAX: Final = 1 << 62
"""As far as a horizon may lie, for ever: timestamps are written as what they lack to it, in 64 bits."""

NOTHING: Final = -1
"""As the last offset that the table knows of: everything is kept."""


class BatchRetention(NamedTuple):
    """What a caller wants of one batch that it was handed."""

    drop_records: bool  # all of them: they are aborted, or a marker whose time has come
    keep_empty: bool  # the batch stays even without a record: its producer is known by it
    keep_place: bool  # something stays that ends with the batch's last offset
    set_horizon: bool  # a marker that may go once its time has come


class RetainedRecords(NamedTuple):
    """What stays of a batch: so many records, the largest timestamp among them, and their bytes."""

    records: int
    max_timestamp: int
    body: Buffer


class SegmentWriter:
    """What becomes of a group of segments: bytes to be written, and the indexes of what was."""

    def __init__(
        self,
        table: OffsetMap,
        *,
        base_offset: int,
        now_ms: int,
        delete_retention_ms: int,
        index_interval_bytes: int,
        index_bytes_max: int,
        kept_offsets: Iterable[int],
        room_bytes: int,
    ) -> None:
        self._table = table
        self._unpacker = table.unpacker
        params = self._params = memoryview(bytearray(table.params)).cast("q")
        params[Parameter.LATEST], params[Parameter.BASE] = table.latest, base_offset
        if table.latest >= params[Parameter.NOTED_END]:
            params[Parameter.NOTED_END] = 0  # not all have their notes: keys are hashed again
        params[Parameter.NOW_MS], params[Parameter.HORIZON_MS] = (
            now_ms,
            min(now_ms + delete_retention_ms, HORIZON_MS_MAX),
        )
        params[Parameter.INTERVAL] = index_interval_bytes
        self._copy_params = memoryview(bytearray(params)).cast("q")
        self._copy_params[Parameter.LATEST] = NOTHING
        self._state = memoryview(bytearray(8 * len(WriterState))).cast("q")
        self._state[WriterState.MAX_TIME] = self._state[WriterState.LAST_TIME] = -1
        self._kept_offsets = _numbers(sorted(kept_offsets))
        self._index = bytearray(index_bytes_max // 8 * 8)
        self._times = bytearray(index_bytes_max // 12 * 12)
        self._out = bytearray(room_bytes)

    @property
    def position(self) -> int:
        """Bytes of the new segment so far, also of those that were not taken yet."""
        return self._state[WriterState.POSITION]

    @property
    def records_read(self) -> int:
        return self._state[WriterState.READ]

    @property
    def records_kept(self) -> int:
        return self._state[WriterState.KEPT]

    @property
    def latest(self) -> int:
        return self._params[Parameter.LATEST]

    def take(self) -> memoryview:
        """The bytes that were made since the last time; good until the next call that makes some."""
        size, self._state[WriterState.OUT] = self._state[WriterState.OUT], 0
        return memoryview(self._out)[:size]

    def clean(
        self, data: Buffer, at: int, end: int, *, last_end: int = -1, others: int = OTHERS
    ) -> tuple[StopReason, int]:
        """Go on with whole batches; why it ended, and where. FULL: `take` what there is. The batch that ends
        at `last_end` leaves at least its place."""
        return self._walk(data, at, end, last_end, others, self._params)

    def copy(self, data: Buffer, at: int, end: int) -> tuple[StopReason, int]:
        """Go on with whole batches of any kind that stay as they are; otherwise as `clean`."""
        return self._walk(data, at, end, -1, 0, self._copy_params)

    def skip(self, records: int) -> None:
        """Go on behind so many records, none of which stays."""
        self._state[WriterState.READ] += records

    def parts(self, base_offset: int, size: int, *, keeps_last: bool, bytes_min: int) -> list[SegmentPart]:
        """What to do with the parts of a segment: see `BatchRuns.parts`."""
        return self._table.parts(
            base_offset, size, keeps_last=keeps_last, bytes_min=bytes_min, kept_offsets=self._kept_offsets
        )

    def _walk(
        self, data: Buffer, at: int, end: int, last_end: int, others: int, params: memoryview
    ) -> tuple[StopReason, int]:
        code, at = in_use(clean_batches)(
            data,
            at,
            end,
            last_end,
            others,
            self._out,
            self._table.data,
            self._kept_offsets,
            params,
            self._state,
            self._index,
            self._times,
        )
        if code > StopReason.OTHER:
            raise BadBatchError(code, at)
        return StopReason(code), at

    def unpack(self, data: Buffer, at: int, end: int) -> UnpackedBatches | None:
        """The packed batches from `at` on whose records must be looked at, if they are some and can be
        unpacked together."""
        return self._unpacker.unpack(data, at, end, first=0, last=self._params[Parameter.LATEST])

    def make_room(self, batch_bytes: int) -> None:
        """Have room for what becomes of such a batch. What was made must have been taken."""
        room = ROOM_FACTOR * batch_bytes + HEADER_BYTES
        if len(self._out) < room:
            assert not self._state[WriterState.OUT]
            self._out = bytearray(room)

    def has_room(self, batch_bytes: int) -> bool:
        return len(self._out) - self._state[WriterState.OUT] >= ROOM_FACTOR * batch_bytes + HEADER_BYTES

    def put(self, batch: Buffer, retention: BatchRetention, body: Buffer, header: BatchHeader) -> None:
        """Go on with one batch that was handed back; `body` holds its records, unpacked."""
        params, state = self._params, self._state
        count = header.record_count
        state[WriterState.READ] += count
        kept, tombstones, max_timestamp, records = count, 0, header.max_timestamp, body
        if retention.drop_records:
            kept = 0
        elif not header.is_control and header.base_offset <= params[Parameter.LATEST]:
            horizon_ms = header.delete_horizon_ms
            drops = horizon_ms is not None and horizon_ms <= params[Parameter.NOW_MS]
            out = bytearray(len(body))
            kept, tombstones, max_timestamp, end, _ = in_use(keep_records)(
                body,
                0,
                len(body),
                count,
                header.base_offset,
                header.base_timestamp,
                int(drops),
                out,
                0,
                self._table.data,
                params,
            )
            if kept < 0:
                raise bad_record(header)
            records = body if kept == count else memoryview(out)[:end]
        state[WriterState.KEPT] += kept
        sets_horizon = (tombstones > 0 or retention.set_horizon) and header.delete_horizon_ms is None
        if kept:
            self._put_kept(batch, header, RetainedRecords(kept, max_timestamp, records), sets_horizon)
        else:
            self._put_nothing_of(header, keep_empty=retention.keep_empty, keep_place=retention.keep_place)

    def _put_kept(
        self, batch: Buffer, header: BatchHeader, kept: RetainedRecords, sets_horizon: bool
    ) -> None:
        if kept.records == header.record_count and not sets_horizon:
            self._emit(batch)
        else:
            if not header.attributes & LOG_APPEND_TIME:
                header = header._replace(max_timestamp=kept.max_timestamp)
            header = header._replace(record_count=kept.records)
            self._emit(_rewritten(header, kept.body, sets_horizon, self._params))

    def _put_nothing_of(self, header: BatchHeader, *, keep_empty: bool, keep_place: bool) -> None:
        """No record of a batch stays."""
        if keep_empty:
            self._emit(join_batch(_empty(header), b""))
        elif keep_place:
            self._emit(join_batch(_place_of(header), b""))

    def look_up(self, data: Buffer, found: UnpackedBatches) -> None:
        """Find out which records of the batches that `unpack` gave stay; `put_unpacked` each of them then."""
        code, number = in_use(keep_packed)(
            data,
            found.body,
            found.rows,
            found.batches,
            found.room,
            self._table.data,
            self._params,
            self._state,
        )
        if code == StopReason.BAD_RECORD:
            raise BadBatchError(code, found.row(number)[PackedColumn.AT])

    def put_unpacked(
        self, data: Buffer, found: UnpackedBatches, number: int, *, keep_empty: bool, keep_place: bool = False
    ) -> None:
        """Go on with one batch that was looked up."""
        row = found.row(number)
        at, size, body_at, body_end, count, kept, tombstones, max_timestamp, kept_at, kept_end = row
        if 0 < kept < count and not tombstones:
            packed = compress(Codec.ZSTD, memoryview(found.room)[kept_at:kept_end])
            self._have_room(HEADER_BYTES + len(packed))
            in_use(put_packed)(
                data,
                at,
                packed,
                kept,
                max_timestamp,
                self._out,
                self._params,
                self._state,
                self._index,
                self._times,
            )
            return
        header = read_header(data, at)
        if not kept:
            self._put_nothing_of(header, keep_empty=keep_empty, keep_place=keep_place)
            return
        records = found.body[body_at:body_end] if kept == count else memoryview(found.room)[kept_at:kept_end]
        sets_horizon = tombstones > 0 and header.delete_horizon_ms is None
        batch = memoryview(data)[at : at + size]
        self._put_kept(batch, header, RetainedRecords(kept, max_timestamp, records), sets_horizon)

    def _emit(self, batch: Buffer) -> None:
        at, size = self._state[WriterState.OUT], len(batch)
        self._have_room(size)
        self._out[at : at + size] = batch
        header = read_header(batch)
        in_use(note_batch)(
            size,
            header.last_offset,
            header.record_timestamp_max,
            self._params,
            self._state,
            self._index,
            self._times,
        )

    def _have_room(self, size: int) -> None:
        """A batch may pack worse than it did."""
        at = self._state[WriterState.OUT]
        if len(self._out) - at < size:
            self._out = self._out[:at] + bytearray(size)

    def indexes(self) -> tuple[bytes, bytes]:
        """The offset and the time index of what was written, the latter with its closing entry."""
        state = self._state
        times = bytes(self._times[: state[WriterState.TIMES]])
        if state[WriterState.MAX_TIME] > state[WriterState.LAST_TIME]:
            times += state[WriterState.MAX_TIME].to_bytes(8, "big") + state[
                WriterState.MAX_TIME_OFFSET
            ].to_bytes(4, "big")
        return bytes(self._index[: state[WriterState.INDEX]]), times


def _empty(header: BatchHeader) -> BatchHeader:
    """The header of a batch whose records are all gone."""
    attributes = header.attributes & ~(DELETE_HORIZON | CODEC_MASK)
    return header._replace(attributes=attributes, base_timestamp=header.max_timestamp, record_count=0)


def _place_of(header: BatchHeader) -> BatchHeader:
    """The header of a batch that is only there for its offsets: nobody's, and of no time. So it keeps no
    transaction's marker from going, as a batch of that transaction would."""
    return header._replace(
        attributes=0,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=NO_TIMESTAMP,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=0,
    )


def _rewritten(header: BatchHeader, records: Buffer, sets_horizon: bool, params: memoryview) -> bytearray:
    """A batch with fewer records, or with a horizon, in the codec it had."""
    if sets_horizon:
        horizon_ms = params[Parameter.HORIZON_MS]
        out = bytearray(ROOM_FACTOR * len(records) + HEADER_BYTES)
        shift = header.base_timestamp - horizon_ms
        end = in_use(shift_records)(records, 0, len(records), header.record_count, shift, out, 0)
        records = memoryview(out)[:end]
        attributes = header.attributes | DELETE_HORIZON
        header = header._replace(attributes=attributes, base_timestamp=horizon_ms)
    return join_batch(header, compress(header.codec, records))


def _numbers(values: list[int]) -> memoryview:
    numbers = memoryview(bytearray(8 * len(values))).cast("q")
    for at, value in enumerate(values):
        numbers[at] = value
    return numbers
