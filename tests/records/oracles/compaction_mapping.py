"""The oracle of `kernels.compaction_mapping`."""

import struct
from typing import Final

from crc32c import crc32c as _crc32c

from headrace.base.chunks import Buffer
from headrace.records.compaction.layout import ENTRY_BYTES, MapCounter, Parameter, StopReason
from headrace.records.header import ATTRIBUTES_OFFSET, HEADER_BYTES, MAGIC, BatchHeader, read_header
from tests.records.oracles.compaction_runs import note_run
from tests.records.oracles.records import _number, siphash

_ENTRY: Final = struct.Struct("<QQQ")
_UINT64: Final = (1 << 64) - 1

_Record = tuple[int, int, int, int, int, int]
_NO_RECORD: Final[_Record] = (-1, 0, 0, 0, 0, 0)


def crc32c(data: Buffer, at: int, end: int) -> int:
    """CRC-32C of a part of a buffer."""
    return _crc32c(memoryview(data)[at:end])


def read_record(data: Buffer, at: int, limit: int) -> _Record:
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


def slot_of(table: Buffer, slots: int, low: int, high: int) -> tuple[int, int]:
    """Where a key's entry begins, or would begin, and what it says of the key's last offset, plus one."""
    at = (low >> 32) * slots >> 32
    while True:
        entry_low, entry_high, found = _ENTRY.unpack_from(table, at * ENTRY_BYTES)
        if not found or (entry_low, entry_high) == (low, high):
            return at * ENTRY_BYTES, found
        at = (at + 1) % slots


def hash_key(data: Buffer, at: int, size: int, params: memoryview) -> tuple[int, int]:
    return siphash(
        memoryview(data)[at : at + size],
        params[Parameter.SECRET_0] & _UINT64,
        params[Parameter.SECRET_1] & _UINT64,
    )


def _map_records(
    data: Buffer,
    at: int,
    limit: int,
    count: int,
    base_offset: int,
    table: bytearray | memoryview,
    params: memoryview,
    counters: memoryview,
) -> int:
    """Note the last offset of each key of a batch's records; a code."""
    for _ in range(count):
        at, _, offset_delta, key_at, key_size, value_size = read_record(data, at, limit)
        if at < 0:
            return StopReason.BAD_RECORD
        offset = base_offset + offset_delta
        if offset < params[Parameter.START]:
            continue
        if key_size >= 0:
            if counters[MapCounter.ENTRIES] >= params[Parameter.ENTRIES_MAX]:
                return StopReason.FULL
            low, high = hash_key(data, key_at, key_size, params)
            entry, found = slot_of(table, params[Parameter.SLOTS], low, high)
            if not found:
                counters[MapCounter.ENTRIES] += 1
            elif found <= params[Parameter.NOTED_END]:
                place = found - 1 - params[Parameter.START]
                at_bit = params[Parameter.SLOTS] * ENTRY_BYTES + (place >> 3)
                memoryview(table).cast("B")[at_bit] |= 1 << (place & 7)
            _ENTRY.pack_into(table, entry, low, high, offset + 1)
        counters[MapCounter.RECORDS] += 1
        counters[MapCounter.TOMBSTONES] += value_size < 0
        counters[MapCounter.LATEST] = offset
    return StopReason.MORE


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
    params: memoryview,
    counters: memoryview,
    runs: memoryview,
) -> int:
    """Put the keys of a batch's records into the table, and note it as part of a run unless `position` is
    negative; a code."""
    tombstones = counters[MapCounter.TOMBSTONES]
    code = _map_records(data, at, limit, count, base_offset, table, params, counters)
    if code == StopReason.MORE:
        counters[MapCounter.LATEST] = max(counters[MapCounter.LATEST], last_offset)
        # A batch without records goes where it is met, and one that begins before the table does is not all
        # in it.
        if count and base_offset >= params[Parameter.START] and position >= 0:
            tombstones = counters[MapCounter.TOMBSTONES] - tombstones
            note_run(position, size, base_offset, last_offset + 1, count, tombstones, runs, counters)
    return code


def see_batch(data: Buffer, at: int, end: int) -> tuple[int, BatchHeader | None]:
    """The header at `at`, or why there is none."""
    if end - at < HEADER_BYTES:
        return StopReason.MORE, None
    header = read_header(data, at)
    if header.size < HEADER_BYTES or header.magic != MAGIC:
        return StopReason.BAD_HEADER, None
    if header.record_count < 0 or header.last_offset_delta < 0:
        return StopReason.BAD_HEADER, None
    return StopReason.MORE, None if header.size > end - at else header


def map_batches(
    data: Buffer,
    at: int,
    end: int,
    others: int,
    position: int,
    table: bytearray | memoryview,
    params: memoryview,
    counters: memoryview,
    runs: memoryview,
) -> tuple[int, int]:
    """Put the keys of whole batches into the table; a code, and where the walk ended. `position` is that of
    the window's first byte."""
    while True:
        code, header = see_batch(data, at, end)
        if header is None:
            return code, at
        if header.last_offset >= params[Parameter.START]:
            if header.attributes & others:
                return StopReason.OTHER, at
            if crc32c(data, at + ATTRIBUTES_OFFSET, at + header.size) != header.crc:
                return StopReason.BAD_CRC, at
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
                params,
                counters,
                runs,
            )
            if code != StopReason.MORE:
                return code, at
        at += header.size
