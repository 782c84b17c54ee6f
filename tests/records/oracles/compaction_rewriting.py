"""The oracle of `kernels.compaction_rewriting`."""

import struct
from bisect import bisect_left
from typing import Final

from headrace.base.chunks import Buffer
from headrace.records.compaction.layout import ENTRY_BYTES, Parameter, StopReason, WriterState
from headrace.records.header import (
    ATTRIBUTES_OFFSET,
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
from headrace.records.varints import encode_varint
from tests.records.oracles.compaction_mapping import crc32c, hash_key, read_record, see_batch, slot_of
from tests.records.oracles.records import _number

_INDEX_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")


def keep_records(
    data: Buffer,
    at: int,
    limit: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    drops_tombstones: int,
    out: bytearray,
    out_at: int,
    table: bytearray | memoryview,
    params: memoryview,
) -> tuple[int, int, int, int, int]:
    """Copy the records that are their keys' last to `out`, unless that is all of them.

    How many are kept (-1: a record is bad), how many of those are delete markers that the table knows of, the
    largest timestamp of the kept, where they end in `out`, and where the records end in `data`.
    """
    view = memoryview(data)
    kept, tombstones, max_timestamp, parts = 0, 0, -1, []
    for _ in range(count):
        start = at
        at, timestamp_delta, offset_delta, key_at, key_size, value_size = read_record(data, at, limit)
        if at < 0:
            return -1, 0, 0, 0, 0
        offset = base_offset + offset_delta
        keeps = offset > params[Parameter.LATEST]
        if not keeps and key_size >= 0:
            if params[Parameter.START] <= offset < params[Parameter.NOTED_END]:
                keeps = not is_superseded(table, params[Parameter.SLOTS], offset - params[Parameter.START])
            else:
                _, found = slot_of(table, params[Parameter.SLOTS], *hash_key(data, key_at, key_size, params))
                keeps = found - 1 <= offset
            keeps = keeps and (value_size >= 0 or not drops_tombstones)
            tombstones += keeps and value_size < 0
        if keeps:
            kept += 1
            max_timestamp = max(max_timestamp, base_timestamp + timestamp_delta)
            parts.append(view[start:at])
    if kept < count:
        joined = b"".join(parts)
        out[out_at : out_at + len(joined)] = joined
        out_at += len(joined)
    return kept, tombstones, max_timestamp, out_at, at


def is_superseded(table: bytearray | memoryview, slots: int, place: int) -> bool:
    """The bit of the offset that lies `place` behind the first one that has one."""
    at = slots * ENTRY_BYTES + (place >> 3)
    return bool(memoryview(table).cast("B")[at] >> (place & 7) & 1)


def shift_records(
    data: Buffer, at: int, limit: int, count: int, shift: int, out: bytearray, out_at: int
) -> int:
    """Copy records with `shift` added to their timestamps' deltas; where they end in `out`."""
    view = memoryview(data)
    for _ in range(count):
        size, start = _number(data, at, limit, 64)
        at = start + size
        delta, rest = _number(data, start + 1, at, 64)
        body = bytes(view[start : start + 1]) + encode_varint(delta + shift) + bytes(view[rest:at])
        whole = encode_varint(len(body)) + body
        out[out_at : out_at + len(whole)] = whole
        out_at += len(whole)
    return out_at


def note_batch(
    size: int,
    last_offset: int,
    max_timestamp: int,
    params: memoryview,
    state: memoryview,
    index: bytearray,
    times: bytearray,
) -> None:
    """Take a batch that was written into the new segment's size and indexes. One without records has no
    timestamp (-1): what the time index leads to is a record."""
    relative = last_offset - params[Parameter.BASE]
    if max_timestamp > state[WriterState.MAX_TIME]:
        state[WriterState.MAX_TIME] = max_timestamp
        state[WriterState.MAX_TIME_OFFSET] = relative
    if state[WriterState.SINCE] > params[Parameter.INTERVAL] and state[
        WriterState.INDEX
    ] + _INDEX_ENTRY.size <= len(index):
        _INDEX_ENTRY.pack_into(index, state[WriterState.INDEX], relative, state[WriterState.POSITION])
        state[WriterState.INDEX] += _INDEX_ENTRY.size
        is_later = state[WriterState.MAX_TIME] > state[WriterState.LAST_TIME]
        # Room for one more is left, which closes the index.
        if is_later and state[WriterState.TIMES] + 2 * _TIME_ENTRY.size <= len(times):
            entry = state[WriterState.MAX_TIME], state[WriterState.MAX_TIME_OFFSET]
            _TIME_ENTRY.pack_into(times, state[WriterState.TIMES], *entry)
            state[WriterState.TIMES] += _TIME_ENTRY.size
            state[WriterState.LAST_TIME] = state[WriterState.MAX_TIME]
        state[WriterState.SINCE] = 0
    state[WriterState.SINCE] += size
    state[WriterState.POSITION] += size
    state[WriterState.OUT] += size


def _has(numbers: memoryview, wanted: int) -> bool:
    at = bisect_left(numbers, wanted)
    return at < len(numbers) and numbers[at] == wanted


def _clean_batch(
    data: Buffer,
    at: int,
    header: BatchHeader,
    is_wanted: bool,
    room: int,
    table: bytearray | memoryview,
    kept_offsets: memoryview,
    params: memoryview,
    state: memoryview,
) -> Buffer | None:
    """What is to be kept of a batch; None for a bad record."""
    limit, count = at + header.size, header.record_count
    original = memoryview(data)[at:limit]
    state[WriterState.READ] += count
    if header.base_offset > params[Parameter.LATEST]:
        state[WriterState.KEPT] += count
        return original
    horizon_ms = header.delete_horizon_ms
    drops = horizon_ms is not None and horizon_ms <= params[Parameter.NOW_MS]
    body = bytearray(room)
    kept, tombstones, found_max, end, _ = keep_records(
        data,
        at + HEADER_BYTES,
        limit,
        count,
        header.base_offset,
        header.base_timestamp,
        drops,
        body,
        0,
        table,
        params,
    )
    if kept < 0:
        return None
    state[WriterState.KEPT] += kept
    sets_horizon = tombstones > 0 and horizon_ms is None
    if not kept:
        if _has(kept_offsets, header.last_offset):
            return join_batch(empty(header), b"")
        return join_batch(place_of(header), b"") if is_wanted else b""
    if kept == count and not sets_horizon:
        return original
    records: Buffer = memoryview(body)[:end] if kept < count else original[HEADER_BYTES:]
    if not header.attributes & LOG_APPEND_TIME:
        header = header._replace(max_timestamp=found_max)
    header = header._replace(record_count=kept)
    if sets_horizon:
        new_ms = params[Parameter.HORIZON_MS]
        out = bytearray(room)
        end = shift_records(records, 0, len(records), kept, header.base_timestamp - new_ms, out, 0)
        attributes = header.attributes | DELETE_HORIZON
        return join_batch(header._replace(attributes=attributes, base_timestamp=new_ms), out[:end])
    return join_batch(header, records)


def empty(header: BatchHeader) -> BatchHeader:
    """The header of a batch whose records are all gone."""
    attributes = header.attributes & ~(DELETE_HORIZON | CODEC_MASK)
    return header._replace(attributes=attributes, base_timestamp=header.max_timestamp, record_count=0)


def place_of(header: BatchHeader) -> BatchHeader:
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


def clean_batches(
    data: Buffer,
    at: int,
    end: int,
    last_end: int,
    others: int,
    out: bytearray,
    table: bytearray | memoryview,
    kept_offsets: memoryview,
    params: memoryview,
    state: memoryview,
    index: bytearray,
    times: bytearray,
) -> tuple[int, int]:
    """Write what is to be kept of whole batches to `out`; a code, and where the walk ended.

    Batches that end with one of `kept_offsets`, which are sorted, stay even if all their records go. Of the
    one that ends at `last_end` at least its place stays. `out` must have room for three times a batch: new
    timestamps take more.
    """
    while True:
        code, header = see_batch(data, at, end)
        if header is None:
            return code, at
        if header.attributes & others:
            return StopReason.OTHER, at
        out_at, room = state[WriterState.OUT], 3 * header.size + HEADER_BYTES
        if len(out) - out_at < room:
            return StopReason.FULL, at
        if crc32c(data, at + ATTRIBUTES_OFFSET, at + header.size) != header.crc:
            return StopReason.BAD_CRC, at
        is_wanted = at + header.size == last_end
        written = _clean_batch(data, at, header, is_wanted, room, table, kept_offsets, params, state)
        if written is None:
            return StopReason.BAD_RECORD, at
        if len(written):
            out[out_at : out_at + len(written)] = written
            found = read_header(written)
            note_batch(
                len(written), found.last_offset, found.record_timestamp_max, params, state, index, times
            )
        at += header.size
