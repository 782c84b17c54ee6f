"""Batches packed with zstd, many at once, at native speed: gathered, taken apart, put into the table, looked
up in it, and written anew.

Compiled by numba; `kernels_cleaning_packed_plain` has the twins, which say what each answers.
"""

from typing import Final

from headrace.records.kernels import kernel
from headrace.records.kernels_cleaning_mapping import map_batch
from headrace.records.kernels_cleaning_parts import (
    BYTES,
    I64,
    NUMBERS,
    ROOM,
    STATE,
    TABLE,
    TURN_BYTES,
    Bytes,
    Numbers,
    Words,
    next_turn,
    put_signed,
    read_signed,
    read_varint,
    see_batch,
    types,
)
from headrace.records.kernels_cleaning_rewriting import keep_records, note_batch
from headrace.records.kernels_llvm import copy as _copy
from headrace.records.kernels_llvm import crc32c as _crc

PARTS: Final = "846265b1"
"""Of the parts that these kernels were made of: see `kernels_cleaning_parts`."""


# Those of `cleaning_layout` as plain numbers: numba's cache does not look into other modules.
_MORE, _BAD_RECORD = 0, 5
_AT, _SIZE, _BODY_AT, _BODY_END, _RECORDS, _KEPT, _TOMBSTONES, _MAX_TIME, _KEPT_AT, _KEPT_END = range(10)
_PACKED: Final = 10
_NOW_MS: Final = 6
_S_OUT, _S_READ, _S_KEPT = 0, 8, 9


@kernel(types.UniTuple(I64, 2)(BYTES, I64, I64, I64, I64, I64, I64, ROOM, STATE))
def gather_packed(
    data: Bytes,
    at: int,
    end: int,
    mask: int,
    codec: int,
    first: int,
    last: int,
    packed: Bytes,
    rows: Numbers,
) -> tuple[int, int]:
    count, used = 0, 0
    while (count + 1) * _PACKED <= rows.shape[0]:
        code, size = see_batch(data, at, end)
        if code >= 0 or read_signed(data, at + 21, 2) & mask != codec:
            break
        base_offset = read_signed(data, at, 8)
        if base_offset + read_signed(data, at + 23, 4) < first or base_offset > last:
            break
        if size == 61 or used + size - 61 > packed.shape[0]:
            break
        if _crc(data, at + 21, at + size) != read_signed(data, at + 17, 4) & 0xFFFFFFFF:
            break
        _copy(packed, used, data, at + 61, size - 61)
        used += size - 61
        rows[count * _PACKED + _AT] = at
        rows[count * _PACKED + _SIZE] = size
        count += 1
        at += size
    return count, used


@kernel(types.boolean(BYTES, I64, BYTES, STATE, I64))
def split_bodies(body: Bytes, size: int, data: Bytes, rows: Numbers, count: int) -> bool:
    at = 0
    for number in range(count):
        row = number * _PACKED
        rows[row + _BODY_AT] = at
        rows[row + _RECORDS] = read_signed(data, rows[row + _AT] + 57, 4)
        for _ in range(rows[row + _RECORDS]):
            record_size, start = read_varint(body, at, size)
            if start < 0 or record_size < 0 or record_size > size - start:
                return False
            at = start + record_size
        rows[row + _BODY_END] = at
    return bool(at == size)


@kernel(types.UniTuple(I64, 2)(BYTES, BYTES, NUMBERS, I64, I64, TABLE, NUMBERS, STATE, STATE))
def map_packed(
    data: Bytes,
    body: Bytes,
    rows: Numbers,
    count: int,
    position: int,
    table: Words,
    job: Numbers,
    tally: Numbers,
    runs: Numbers,
) -> tuple[int, int]:
    turn_end = TURN_BYTES
    for number in range(count):
        row = number * _PACKED
        turn_end = next_turn(rows[row + _BODY_AT], turn_end)
        at, size = rows[row + _AT], rows[row + _SIZE]
        base_offset = read_signed(data, at, 8)
        code = map_batch(
            body,
            rows[row + _BODY_AT],
            rows[row + _BODY_END],
            rows[row + _RECORDS],
            base_offset,
            base_offset + read_signed(data, at + 23, 4),
            position + at,
            size,
            table,
            job,
            tally,
            runs,
        )
        if code != _MORE:
            return code, number
    return _MORE, count


@kernel(types.UniTuple(I64, 2)(BYTES, BYTES, STATE, I64, ROOM, TABLE, NUMBERS, STATE))
def keep_packed(
    data: Bytes,
    body: Bytes,
    rows: Numbers,
    count: int,
    room: Bytes,
    table: Words,
    job: Numbers,
    state: Numbers,
) -> tuple[int, int]:
    used, turn_end = 0, TURN_BYTES
    for number in range(count):
        row = number * _PACKED
        turn_end = next_turn(rows[row + _BODY_AT], turn_end)
        at = rows[row + _AT]
        base_timestamp = read_signed(data, at + 27, 8)
        drops = read_signed(data, at + 21, 2) & 64 != 0 and base_timestamp <= job[_NOW_MS]
        kept, tombstones, max_timestamp, end, _ = keep_records(
            body,
            rows[row + _BODY_AT],
            rows[row + _BODY_END],
            rows[row + _RECORDS],
            read_signed(data, at, 8),
            base_timestamp,
            drops,
            room,
            used,
            table,
            job,
        )
        if kept < 0:
            return _BAD_RECORD, number
        rows[row + _KEPT], rows[row + _TOMBSTONES], rows[row + _MAX_TIME] = kept, tombstones, max_timestamp
        rows[row + _KEPT_AT], rows[row + _KEPT_END] = used, end
        state[_S_READ] += rows[row + _RECORDS]
        state[_S_KEPT] += kept
        used = end
    return _MORE, count


@kernel(types.void(BYTES, I64, BYTES, I64, I64, ROOM, NUMBERS, STATE, ROOM, ROOM))
def put_packed(
    data: Bytes,
    at: int,
    packed: Bytes,
    kept: int,
    max_timestamp: int,
    out: Bytes,
    job: Numbers,
    state: Numbers,
    index: Bytes,
    times: Bytes,
) -> None:
    out_at, size = state[_S_OUT], packed.shape[0] + 61
    _copy(out, out_at, data, at, 61)
    _copy(out, out_at + 61, packed, 0, size - 61)
    put_signed(out, out_at + 8, size - 12, 4)
    if not read_signed(data, at + 21, 2) & 8:
        put_signed(out, out_at + 35, max_timestamp, 8)
    put_signed(out, out_at + 57, kept, 4)
    put_signed(out, out_at + 17, _crc(out, out_at + 21, out_at + size), 4)
    last_offset = read_signed(data, at, 8) + read_signed(data, at + 23, 4)
    note_batch(size, last_offset, read_signed(out, out_at + 35, 8), job, state, index, times)
