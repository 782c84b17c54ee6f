"""The second half of compaction at native speed: batches written anew without what is superseded.

Compiled by numba. Each kernel has a twin of the same name in `kernels_cleaning_plain`, which says what it
answers and leaves the same bytes in the same buffers. All release the GIL for as long as a window of a
segment lasts, so that the event loop does not wait for them.
"""

from collections.abc import Callable
from typing import Any, Final, cast

import numpy as np

from headrace.records.kernels import kernel
from headrace.records.kernels_cleaning_parts import (
    AHEAD_FIELDS,
    AHEAD_MAX,
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
    is_superseded,
    look_ahead,
    next_turn,
    put_signed,
    put_varint,
    read_signed,
    read_varint,
    see_batch,
    slot_of,
    types,
    varint_bytes,
)
from headrace.records.kernels_llvm import copy as _copy
from headrace.records.kernels_llvm import crc32c as _crc

PARTS: Final = "42eca254"
"""Of the parts that these kernels were made of: see `kernels_cleaning_parts`."""

_int64 = cast(Callable[[Any], int], np.int64)

# Those of `cleaning_layout` as plain numbers: numba's cache does not look into other modules.
_FULL, _OTHER, _BAD_CRC, _BAD_RECORD = 1, 2, 4, 5
_SLOTS, _START, _LATEST, _NOW_MS, _HORIZON_MS, _INTERVAL, _BASE, _NOTED_END = 0, 1, 5, 6, 7, 8, 9, 10
_S_OUT, _S_POSITION, _S_SINCE, _S_MAX_TIME, _S_MAX_TIME_OFFSET, _S_INDEX, _S_TIMES, _S_LAST_TIME = range(8)
_S_READ, _S_KEPT = 8, 9
_INT64_MIN: Final = -(2**63)


@kernel(types.UniTuple(I64, 5)(BYTES, I64, I64, I64, I64, I64, I64, ROOM, I64, TABLE, NUMBERS))
def keep_records(
    data: Bytes,
    at: int,
    limit: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    drops_tombstones: int,
    out: Bytes,
    out_at: int,
    table: Words,
    job: Numbers,
) -> tuple[int, int, int, int, int]:
    ahead = np.empty(AHEAD_MAX * AHEAD_FIELDS, np.int64)
    slots, latest = job[_SLOTS], job[_LATEST]
    noted_from, noted_end = job[_START], job[_NOTED_END]
    hashed_to = noted_from - 1 if noted_end > 0 else latest
    kept, tombstones, max_timestamp = 0, 0, _int64(-1)
    run, left = at, count
    while left > 0:
        some = look_ahead(data, at, limit, left, base_offset, _INT64_MIN, hashed_to, table, job, ahead)
        if some < 0:
            return -1, 0, 0, 0, 0
        for index in range(some):
            row = index * AHEAD_FIELDS
            end, offset, has_value = ahead[row], ahead[row + 2], ahead[row + 4] >= 0
            keeps = offset > latest
            if not keeps and ahead[row + 3] >= 0:
                if offset >= noted_from and offset < noted_end:
                    keeps = not is_superseded(table, slots, offset - noted_from)
                else:
                    entry = 3 * slot_of(table, slots, np.uint64(ahead[row + 5]), np.uint64(ahead[row + 6]))
                    keeps = _int64(table[entry + 2]) - 1 <= offset
                keeps = keeps and (has_value or not drops_tombstones)
                if keeps and not has_value:
                    tombstones += 1
            if keeps:
                kept += 1
                max_timestamp = max(max_timestamp, base_timestamp + ahead[row + 1])
            else:
                _copy(out, out_at, data, run, at - run)
                out_at += at - run
                run = end
            at = end
        left -= some
    if kept < count:
        _copy(out, out_at, data, run, at - run)
        out_at += at - run
    return kept, tombstones, max_timestamp, out_at, at


@kernel(I64(BYTES, I64, I64, I64, I64, ROOM, I64))
def shift_records(data: Bytes, at: int, limit: int, count: int, shift: int, out: Bytes, out_at: int) -> int:
    for _ in range(count):
        size, start = read_varint(data, at, limit)
        end = start + size
        timestamp_delta, rest = read_varint(data, start + 1, end)
        delta = timestamp_delta + shift
        size = 1 + varint_bytes(delta) + end - rest
        out_at = put_varint(out, out_at, size)
        out[out_at] = data[start]
        out_at = put_varint(out, out_at + 1, delta)
        _copy(out, out_at, data, rest, end - rest)
        out_at += end - rest
        at = end
    return out_at


@kernel(types.void(I64, I64, I64, NUMBERS, STATE, ROOM, ROOM))
def note_batch(
    size: int, last_offset: int, max_timestamp: int, job: Numbers, state: Numbers, index: Bytes, times: Bytes
) -> None:
    relative = last_offset - job[_BASE]
    if max_timestamp > state[_S_MAX_TIME]:
        state[_S_MAX_TIME] = max_timestamp
        state[_S_MAX_TIME_OFFSET] = relative
    if state[_S_SINCE] > job[_INTERVAL] and state[_S_INDEX] + 8 <= index.shape[0]:
        put_signed(index, state[_S_INDEX], relative, 4)
        put_signed(index, state[_S_INDEX] + 4, state[_S_POSITION], 4)
        state[_S_INDEX] += 8
        if state[_S_MAX_TIME] > state[_S_LAST_TIME] and state[_S_TIMES] + 24 <= times.shape[0]:
            put_signed(times, state[_S_TIMES], state[_S_MAX_TIME], 8)
            put_signed(times, state[_S_TIMES] + 8, state[_S_MAX_TIME_OFFSET], 4)
            state[_S_TIMES] += 12
            state[_S_LAST_TIME] = state[_S_MAX_TIME]
        state[_S_SINCE] = 0
    state[_S_SINCE] += size
    state[_S_POSITION] += size
    state[_S_OUT] += size


@kernel(types.boolean(NUMBERS, I64))
def _has(numbers: Numbers, wanted: int) -> bool:
    low, high = 0, numbers.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if numbers[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return bool(low < numbers.shape[0] and numbers[low] == wanted)


@kernel(I64(BYTES, I64, I64, I64, ROOM, TABLE, NUMBERS, NUMBERS, STATE))
def _clean_batch(
    data: Bytes,
    at: int,
    size: int,
    is_wanted: int,
    out: Bytes,
    table: Words,
    kept_offsets: Numbers,
    job: Numbers,
    state: Numbers,
) -> int:
    """Write what is to be kept of a batch behind what `out` has, and give its size; -1 for a bad record."""
    out_at = state[_S_OUT]
    base_offset = read_signed(data, at, 8)
    count = read_signed(data, at + 57, 4)
    state[_S_READ] += count
    if base_offset > job[_LATEST]:
        _copy(out, out_at, data, at, size)
        state[_S_KEPT] += count
        return size
    attributes = read_signed(data, at + 21, 2)
    base_timestamp = read_signed(data, at + 27, 8)
    max_timestamp = read_signed(data, at + 35, 8)
    has_horizon = attributes & 64 != 0
    drops = has_horizon and base_timestamp <= job[_NOW_MS]
    kept, tombstones, found_max, end, _ = keep_records(
        data, at + 61, at + size, count, base_offset, base_timestamp, drops, out, out_at + 61, table, job
    )
    if kept < 0:
        return -1
    state[_S_KEPT] += kept
    new_horizon = tombstones > 0 and not has_horizon
    if kept == count and not new_horizon and count > 0:
        _copy(out, out_at, data, at, size)
        return size
    is_producers = kept == 0 and _has(kept_offsets, base_offset + read_signed(data, at + 23, 4))
    if kept == 0 and not (is_wanted or is_producers):
        return 0
    _copy(out, out_at, data, at, 61)
    if new_horizon:
        shift = base_timestamp - job[_HORIZON_MS]
        if kept == count:
            end = shift_records(data, at + 61, at + size, count, shift, out, out_at + 61)
        else:
            used = end - out_at - 61
            scratch = np.empty(used, np.uint8)
            _copy(scratch, 0, out, out_at + 61, used)
            end = shift_records(scratch, 0, used, kept, shift, out, out_at + 61)
        attributes |= 64
        put_signed(out, out_at + 27, job[_HORIZON_MS], 8)
    if kept == 0:
        attributes &= ~(64 | 7)
        if not is_producers:
            attributes = _int64(0)
            max_timestamp = _int64(-1)
            put_signed(out, out_at + 35, max_timestamp, 8)
            put_signed(out, out_at + 43, -1, 8)
            put_signed(out, out_at + 51, -1, 2)
            put_signed(out, out_at + 53, -1, 4)
        put_signed(out, out_at + 27, max_timestamp, 8)
        end = out_at + 61
    elif not attributes & 8:
        put_signed(out, out_at + 35, found_max, 8)
    put_signed(out, out_at + 8, end - out_at - 12, 4)
    put_signed(out, out_at + 21, attributes, 2)
    put_signed(out, out_at + 57, kept, 4)
    put_signed(out, out_at + 17, _crc(out, out_at + 21, end), 4)
    return end - _int64(out_at)


@kernel(types.UniTuple(I64, 2)(BYTES, I64, I64, I64, I64, ROOM, TABLE, NUMBERS, NUMBERS, STATE, ROOM, ROOM))
def clean_batches(
    data: Bytes,
    at: int,
    end: int,
    last_end: int,
    others: int,
    out: Bytes,
    table: Words,
    kept_offsets: Numbers,
    job: Numbers,
    state: Numbers,
    index: Bytes,
    times: Bytes,
) -> tuple[int, int]:
    turn_end = at + TURN_BYTES
    while True:
        turn_end = next_turn(at, turn_end)
        code, size = see_batch(data, at, end)
        if code >= 0:
            return code, at
        if read_signed(data, at + 21, 2) & others:
            return _OTHER, at
        out_at = state[_S_OUT]
        if out.shape[0] - out_at < 3 * size + 61:
            return _FULL, at
        if _crc(data, at + 21, at + size) != read_signed(data, at + 17, 4) & 0xFFFFFFFF:
            return _BAD_CRC, at
        is_wanted = 1 if at + size == last_end else 0
        written = _clean_batch(data, at, size, is_wanted, out, table, kept_offsets, job, state)
        if written < 0:
            return _BAD_RECORD, at
        if written > 0:
            last_offset = read_signed(out, out_at, 8) + read_signed(out, out_at + 23, 4)
            timed = read_signed(out, out_at + 57, 4) > 0
            max_timestamp = read_signed(out, out_at + 35, 8) if timed else _int64(-1)
            note_batch(written, last_offset, max_timestamp, job, state, index, times)
        at += size
