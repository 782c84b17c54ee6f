"""The plain Python twins of `kernels_cleaning`: the same answers, and the same bytes in the same buffers.

They stand in until numba is loaded, and are what the compiled kernels are tested against. Batches are walked
one behind the other; a batch whose attributes have one of the bits `others` is left to the caller, who knows
codecs and transactions.
"""

import struct
from bisect import bisect_left
from typing import Final

from crc32c import crc32c as _crc32c

from headrace.base.chunks import Buffer
from headrace.records.cleaning_layout import ENTRY_BYTES, Code, Job, State, Tally
from headrace.records.header import (
    ATTRIBUTES_OFFSET,
    CODEC_MASK,
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    BatchHeader,
    join_batch,
    read_header,
)
from headrace.records.kernels_cleaning_runs_plain import count_live, note_run, plan_spans
from headrace.records.kernels_plain import _number, siphash
from headrace.records.varints import encode_varint

__all__ = [
    "clean_batches",
    "count_live",
    "crc32c",
    "empty",
    "keep_records",
    "map_batch",
    "map_batches",
    "new_table",
    "note_batch",
    "plan_spans",
    "shift_records",
]

_ENTRY: Final = struct.Struct("<QQQ")
_INDEX_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
_UINT64: Final = (1 << 64) - 1

_Record = tuple[int, int, int, int, int, int]
_NO_RECORD: Final[_Record] = (-1, 0, 0, 0, 0, 0)


def crc32c(data: Buffer, at: int, end: int) -> int:
    """CRC-32C of a part of a buffer."""
    return _crc32c(memoryview(data)[at:end])


def _record(data: Buffer, at: int, limit: int) -> _Record:
    """A record's end (-1: it is none), its deltas, where its key is, and the sizes of key and value."""
    size, at = _number(data, at, limit, 64)
    end = at + size
    if at < 0 or size < 0 or end > limit:
        return _NO_RECORD
    timestamp_delta, at = _number(data, at + 1, end, 64)
    offset_delta, at = _number(data, at, end, 64) if at >= 0 else (0, -1)
    key_size, key_at = _number(data, at, end, 64) if at >= 0 else (0, -1)
    if key_at < 0 or not -1 <= key_size <= end - key_at:
        return _NO_RECORD
    value_size, at = _number(data, key_at + max(key_size, 0), end, 64)
    if at < 0 or not -1 <= value_size <= end - at:
        return _NO_RECORD
    return end, timestamp_delta, offset_delta, key_at, key_size, value_size


# -- the table of keys ---------------------------------------------------------------------------------------


def new_table(size: int) -> bytearray:
    """Memory for a table, all zeros."""
    return bytearray(size)


def _slot(table: Buffer, slots: int, low: int, high: int) -> tuple[int, int]:
    """Where a key's entry begins, or would begin, and what it says of the key's last offset, plus one."""
    at = (low >> 32) * slots >> 32
    while True:
        entry_low, entry_high, found = _ENTRY.unpack_from(table, at * ENTRY_BYTES)
        if not found or (entry_low, entry_high) == (low, high):
            return at * ENTRY_BYTES, found
        at = (at + 1) % slots


def _hash(data: Buffer, at: int, size: int, job: memoryview) -> tuple[int, int]:
    return siphash(memoryview(data)[at : at + size], job[Job.SECRET_0] & _UINT64, job[Job.SECRET_1] & _UINT64)


def _map_records(
    data: Buffer,
    at: int,
    limit: int,
    count: int,
    base_offset: int,
    table: bytearray | memoryview,
    job: memoryview,
    tally: memoryview,
) -> int:
    """Note the last offset of each key of a batch's records; a code."""
    for _ in range(count):
        at, _, offset_delta, key_at, key_size, value_size = _record(data, at, limit)
        if at < 0:
            return Code.BAD_RECORD
        offset = base_offset + offset_delta
        if offset < job[Job.START]:
            continue
        if key_size >= 0:
            if tally[Tally.ENTRIES] >= job[Job.ENTRIES_MAX]:
                return Code.FULL
            low, high = _hash(data, key_at, key_size, job)
            entry, found = _slot(table, job[Job.SLOTS], low, high)
            if not found:
                tally[Tally.ENTRIES] += 1
            _ENTRY.pack_into(table, entry, low, high, offset + 1)
        tally[Tally.RECORDS] += 1
        tally[Tally.TOMBSTONES] += value_size < 0
        tally[Tally.LATEST] = offset
    return Code.MORE


def map_batch(
    data: Buffer,
    at: int,
    limit: int,
    count: int,
    base_offset: int,
    last_offset: int,
    position: int,
    size: int,
    table: bytearray | memoryview,
    job: memoryview,
    tally: memoryview,
    runs: memoryview,
) -> int:
    """Put the keys of a batch's records into the table, and note it as part of a run unless `position` is
    negative; a code."""
    tombstones = tally[Tally.TOMBSTONES]
    code = _map_records(data, at, limit, count, base_offset, table, job, tally)
    if code == Code.MORE:
        tally[Tally.LATEST] = max(tally[Tally.LATEST], last_offset)
        # A batch without records goes where it is met, and one that begins before the table does is not all
        # in it.
        if count and base_offset >= job[Job.START] and position >= 0:
            tombstones = tally[Tally.TOMBSTONES] - tombstones
            note_run(position, size, base_offset, last_offset + 1, count, tombstones, runs, tally)
    return code


def _batch(data: Buffer, at: int, end: int) -> tuple[int, BatchHeader | None]:
    """The header at `at`, or why there is none."""
    if end - at < HEADER_BYTES:
        return Code.MORE, None
    header = read_header(data, at)
    if header.size < HEADER_BYTES or header.magic != MAGIC:
        return Code.BAD_HEADER, None
    if header.record_count < 0 or header.last_offset_delta < 0:
        return Code.BAD_HEADER, None
    return Code.MORE, None if header.size > end - at else header


def map_batches(
    data: Buffer,
    at: int,
    end: int,
    others: int,
    position: int,
    table: bytearray | memoryview,
    job: memoryview,
    tally: memoryview,
    runs: memoryview,
) -> tuple[int, int]:
    """Put the keys of whole batches into the table; a code, and where the walk ended. `position` is that of
    the window's first byte."""
    while True:
        code, header = _batch(data, at, end)
        if header is None:
            return code, at
        if header.last_offset >= job[Job.START]:
            if header.attributes & others:
                return Code.OTHER, at
            if crc32c(data, at + ATTRIBUTES_OFFSET, at + header.size) != header.crc:
                return Code.BAD_CRC, at
            code = map_batch(
                data,
                at + HEADER_BYTES,
                at + header.size,
                header.record_count,
                header.base_offset,
                header.last_offset,
                position + at,
                header.size,
                table,
                job,
                tally,
                runs,
            )
            if code != Code.MORE:
                return code, at
        at += header.size


# -- rewriting -----------------------------------------------------------------------------------------------


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
    job: memoryview,
) -> tuple[int, int, int, int, int]:
    """Copy the records that are their keys' last to `out`, unless that is all of them.

    How many are kept (-1: a record is bad), how many of those are delete markers that the table knows of, the
    largest timestamp of the kept, where they end in `out`, and where the records end in `data`.
    """
    view = memoryview(data)
    kept, tombstones, max_timestamp, parts = 0, 0, -1, []
    for _ in range(count):
        start = at
        at, timestamp_delta, offset_delta, key_at, key_size, value_size = _record(data, at, limit)
        if at < 0:
            return -1, 0, 0, 0, 0
        offset = base_offset + offset_delta
        keeps = offset > job[Job.LATEST]
        if not keeps and key_size >= 0:
            _, found = _slot(table, job[Job.SLOTS], *_hash(data, key_at, key_size, job))
            keeps = found - 1 <= offset and (value_size >= 0 or not drops_tombstones)
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
    job: memoryview,
    state: memoryview,
    index: bytearray,
    times: bytearray,
) -> None:
    """Take a batch that was written into the new segment's size and indexes."""
    relative = last_offset - job[Job.BASE]
    if max_timestamp > state[State.MAX_TIME]:
        state[State.MAX_TIME] = max_timestamp
        state[State.MAX_TIME_OFFSET] = relative
    if state[State.SINCE] > job[Job.INTERVAL] and state[State.INDEX] + _INDEX_ENTRY.size <= len(index):
        _INDEX_ENTRY.pack_into(index, state[State.INDEX], relative, state[State.POSITION])
        state[State.INDEX] += _INDEX_ENTRY.size
        is_later = state[State.MAX_TIME] > state[State.LAST_TIME]
        # Room for one more is left, which closes the index.
        if is_later and state[State.TIMES] + 2 * _TIME_ENTRY.size <= len(times):
            entry = state[State.MAX_TIME], state[State.MAX_TIME_OFFSET]
            _TIME_ENTRY.pack_into(times, state[State.TIMES], *entry)
            state[State.TIMES] += _TIME_ENTRY.size
            state[State.LAST_TIME] = state[State.MAX_TIME]
        state[State.SINCE] = 0
    state[State.SINCE] += size
    state[State.POSITION] += size
    state[State.OUT] += size


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
    job: memoryview,
    state: memoryview,
) -> Buffer | None:
    """What is to be kept of a batch; None for a bad record."""
    limit, count = at + header.size, header.record_count
    original = memoryview(data)[at:limit]
    state[State.READ] += count
    if header.base_offset > job[Job.LATEST]:
        state[State.KEPT] += count
        return original
    horizon_ms = header.delete_horizon_ms
    drops = horizon_ms is not None and horizon_ms <= job[Job.NOW_MS]
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
        job,
    )
    if kept < 0:
        return None
    state[State.KEPT] += kept
    sets_horizon = tombstones > 0 and horizon_ms is None
    if kept == count and not sets_horizon and (count or is_wanted):
        return original
    if not kept:
        if not (is_wanted or _has(kept_offsets, header.last_offset)):
            return b""
        return join_batch(empty(header), b"")
    records: Buffer = memoryview(body)[:end] if kept < count else original[HEADER_BYTES:]
    if not header.attributes & LOG_APPEND_TIME:
        header = header._replace(max_timestamp=found_max)
    header = header._replace(record_count=kept)
    if sets_horizon:
        new_ms = job[Job.HORIZON_MS]
        out = bytearray(room)
        end = shift_records(records, 0, len(records), kept, header.base_timestamp - new_ms, out, 0)
        attributes = header.attributes | DELETE_HORIZON
        return join_batch(header._replace(attributes=attributes, base_timestamp=new_ms), out[:end])
    return join_batch(header, records)


def empty(header: BatchHeader) -> BatchHeader:
    """The header of a batch whose records are all gone."""
    attributes = header.attributes & ~(DELETE_HORIZON | CODEC_MASK)
    return header._replace(attributes=attributes, base_timestamp=header.max_timestamp, record_count=0)


def clean_batches(
    data: Buffer,
    at: int,
    end: int,
    last_end: int,
    others: int,
    out: bytearray,
    scratch: bytearray,
    table: bytearray | memoryview,
    kept_offsets: memoryview,
    job: memoryview,
    state: memoryview,
    index: bytearray,
    times: bytearray,
) -> tuple[int, int]:
    """Write what is to be kept of whole batches to `out`; a code, and where the walk ended.

    The batch that ends at `last_end`, and those that end with one of `kept_offsets`, which are sorted, stay
    even if all their records go. `out` must have room for three times a batch: new timestamps take more.
    """
    while True:
        code, header = _batch(data, at, end)
        if header is None:
            return code, at
        if header.attributes & others:
            return Code.OTHER, at
        out_at, room = state[State.OUT], 3 * header.size + HEADER_BYTES
        if len(out) - out_at < room:
            return Code.FULL, at
        if crc32c(data, at + ATTRIBUTES_OFFSET, at + header.size) != header.crc:
            return Code.BAD_CRC, at
        is_wanted = at + header.size == last_end
        written = _clean_batch(data, at, header, is_wanted, room, table, kept_offsets, job, state)
        if written is None:
            return Code.BAD_RECORD, at
        if len(written):
            out[out_at : out_at + len(written)] = written
            found = read_header(written)
            note_batch(len(written), found.last_offset, found.max_timestamp, job, state, index, times)
        at += header.size
