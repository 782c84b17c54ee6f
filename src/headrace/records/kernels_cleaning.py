"""Compaction at native speed: the walk over batches, the table of keys and the rewriting, compiled by numba.

Each kernel has a twin of the same name in `kernels_cleaning_plain`, which says what it answers and leaves the
same bytes in the same buffers. All release the GIL for as long as a window of a segment lasts, so that the
event loop does not wait for them.

"""
# Kernels stay in one file: numba's cache sees that a file has changed, not that what it calls elsewhere has.
# Whoever changes `kernels_llvm` changes this file too.

from collections.abc import Callable
from typing import Any, Final, cast

import numba
import numpy as np
from numpy.typing import NDArray

from headrace.records.kernels import kernel
from headrace.records.kernels_llvm import copy as _copy
from headrace.records.kernels_llvm import crc32c as _crc
from headrace.records.kernels_llvm import prefetch as _prefetch
from headrace.records.kernels_llvm import word as _word

types: Any = numba.types
_int64 = cast(Callable[[Any], int], np.int64)

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]
Words = NDArray[np.uint64]

_I64: Final = types.int64
_U64: Final = types.uint64
_BYTES: Final = types.Array(types.uint8, 1, "C", readonly=True)
_ROOM: Final = types.Array(types.uint8, 1, "C")
_TABLE: Final = types.Array(types.uint64, 1, "C")
_NUMBERS: Final = types.Array(types.int64, 1, "C", readonly=True)
_STATE: Final = types.Array(types.int64, 1, "C")

# Those of `cleaning_layout` as plain numbers: numba's cache does not look into other modules.
_MORE, _FULL, _OTHER, _BAD_HEADER, _BAD_CRC, _BAD_RECORD = 0, 1, 2, 3, 4, 5
_SLOTS, _START, _ENTRIES_MAX, _SECRET_0, _SECRET_1 = 0, 1, 2, 3, 4
_LATEST, _NOW_MS, _HORIZON_MS, _INTERVAL, _BASE = 5, 6, 7, 8, 9
_T_ENTRIES, _T_LATEST, _T_RECORDS = 0, 1, 2
_S_OUT, _S_POSITION, _S_SINCE, _S_MAX_TIME, _S_MAX_TIME_OFFSET, _S_INDEX, _S_TIMES, _S_LAST_TIME = range(8)
_S_READ, _S_KEPT = 8, 9
_INT64_MAX: Final = 2**63 - 1
_INT64_MIN: Final = -(2**63)

# Records that are looked at together, and the numbers that are kept of each.
_AHEAD_MAX: Final = 32
_AHEAD_FIELDS: Final = 8


# -- numbers -------------------------------------------------------------------------------------------------


@kernel(_I64(_BYTES, _I64, _I64))
def _signed(data: Bytes, at: int, size: int) -> int:
    """A big-endian number."""
    number = _int64(data[at])
    number -= (number & 128) << 1
    for index in range(1, size):
        number = (number << 8) | _int64(data[at + index])
    return number


@kernel(types.void(_ROOM, _I64, _I64, _I64))
def _put(room: Bytes, at: int, number: int, size: int) -> None:
    """A number in big-endian bytes."""
    for index in range(size):
        room[at + index] = np.uint8((number >> (8 * (size - 1 - index))) & 0xFF)


@kernel(types.UniTuple(_I64, 2)(_BYTES, _I64, _I64))
def _number(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """A zigzag varint and where it ends; -1 for that where it does not."""
    folded = _int64(0)
    shift = 0
    while at < end and shift < 70:
        byte = _int64(data[at])
        at += 1
        folded |= (byte & 127) << shift
        if byte < 128:
            return ((folded >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(folded & 1), at
        shift += 7
    return 0, -1


@kernel(_I64(_ROOM, _I64, _I64))
def _put_number(room: Bytes, at: int, number: int) -> int:
    """Write a zigzag varint; where it ends."""
    folded = (np.uint64(number) << np.uint64(1)) ^ np.uint64(number >> 63)
    while folded > np.uint64(127):
        room[at] = np.uint8((folded & np.uint64(127)) | np.uint64(128))
        folded >>= np.uint64(7)
        at += 1
    room[at] = np.uint8(folded)
    return at + 1


@kernel(_I64(_I64))
def _number_bytes(number: int) -> int:
    folded = (np.uint64(number) << np.uint64(1)) ^ np.uint64(number >> 63)
    size = 1
    while folded > np.uint64(127):
        folded >>= np.uint64(7)
        size += 1
    return size


@kernel(types.UniTuple(_I64, 6)(_BYTES, _I64, _I64))
def _record(data: Bytes, at: int, limit: int) -> tuple[int, int, int, int, int, int]:
    """A record's end (-1: it is none), its deltas, where its key is, and the sizes of key and value."""
    size, at = _number(data, at, limit)
    end = at + size
    if at < 0 or size < 0 or end > limit:
        return -1, 0, 0, 0, 0, 0
    timestamp_delta, at = _number(data, at + 1, end)
    if at < 0:
        return -1, 0, 0, 0, 0, 0
    offset_delta, at = _number(data, at, end)
    if at < 0:
        return -1, 0, 0, 0, 0, 0
    key_size, key_at = _number(data, at, end)
    if key_at < 0 or key_size < -1 or key_size > end - key_at:
        return -1, 0, 0, 0, 0, 0
    value_size, at = _number(data, key_at + max(key_size, 0), end)
    if at < 0 or value_size < -1 or value_size > end - at:
        return -1, 0, 0, 0, 0, 0
    return end, timestamp_delta, offset_delta, key_at, key_size, value_size


# -- the table of keys ---------------------------------------------------------------------------------------


@kernel(types.UniTuple(_U64, 4)(_U64, _U64, _U64, _U64, _I64))
def _rounds(
    a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64, count: int
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    for _ in range(count):
        a += b
        b = ((b << np.uint64(13)) | (b >> np.uint64(51))) ^ a
        a = (a << np.uint64(32)) | (a >> np.uint64(32))
        c += d
        d = ((d << np.uint64(16)) | (d >> np.uint64(48))) ^ c
        a += d
        d = ((d << np.uint64(21)) | (d >> np.uint64(43))) ^ a
        c += b
        b = ((b << np.uint64(17)) | (b >> np.uint64(47))) ^ c
        c = (c << np.uint64(32)) | (c >> np.uint64(32))
    return a, b, c, d


@kernel(types.UniTuple(_U64, 2)(_BYTES, _I64, _I64, _U64, _U64))
def _hash(
    data: Bytes, at: int, size: int, secret_0: np.uint64, secret_1: np.uint64
) -> tuple[np.uint64, np.uint64]:
    """SipHash-2-4-128, as `kernels_siphash` has it, by words."""
    a = np.uint64(0x736F6D6570736575) ^ secret_0
    b = np.uint64(0x646F72616E646F6D) ^ secret_1 ^ np.uint64(0xEE)
    c = np.uint64(0x6C7967656E657261) ^ secret_0
    d = np.uint64(0x7465646279746573) ^ secret_1
    for step in range(size >> 3):
        word = _word(data, at + 8 * step)
        a, b, c, d = _rounds(a, b, c, d ^ word, 2)
        a ^= word
    word = np.uint64(size & 0xFF) << np.uint64(56)
    rest = at + (size & ~7)
    for index in range(size & 7):
        word |= np.uint64(data[rest + index]) << np.uint64(8 * index)
    a, b, c, d = _rounds(a, b, c, d ^ word, 2)
    a ^= word
    a, b, c, d = _rounds(a, b, c ^ np.uint64(0xEE), d, 4)
    low = a ^ b ^ c ^ d
    a, b, c, d = _rounds(a, b ^ np.uint64(0xDD), c, d, 4)
    return low, a ^ b ^ c ^ d


@kernel(_I64(_U64, _I64))
def _home(low: np.uint64, slots: int) -> int:
    return _int64(((low >> np.uint64(32)) * np.uint64(slots)) >> np.uint64(32))


@kernel(_I64(_TABLE, _I64, _U64, _U64))
def _slot(table: Words, slots: int, low: np.uint64, high: np.uint64) -> int:
    """Where a key's entry is, or where it would be."""
    at = _home(low, slots)
    while True:
        entry = 3 * at
        if table[entry + 2] == np.uint64(0) or (table[entry] == low and table[entry + 1] == high):
            return at
        at += 1
        if at == slots:
            at = _int64(0)


@kernel(_I64(_BYTES, _I64, _I64, _I64, _I64, _I64, _I64, _TABLE, _NUMBERS, _STATE))
def _look_ahead(
    data: Bytes,
    at: int,
    limit: int,
    count: int,
    base_offset: int,
    first: int,
    last: int,
    table: Words,
    job: Numbers,
    ahead: Numbers,
) -> int:
    """Take some records apart, hash the keys of those from offset `first` to `last`, and have their entries
    brought from memory, which takes longer than everything else, all at once. How many; -1: one is bad."""
    slots, secret_0, secret_1 = job[_SLOTS], np.uint64(job[_SECRET_0]), np.uint64(job[_SECRET_1])
    count = min(count, _AHEAD_MAX)
    for index in range(count):
        row = index * _AHEAD_FIELDS
        end, timestamp_delta, offset_delta, key_at, key_size, value_size = _record(data, at, limit)
        if end < 0:
            return -1
        offset = base_offset + offset_delta
        ahead[row] = end
        ahead[row + 1] = timestamp_delta
        ahead[row + 2] = offset
        ahead[row + 3] = key_size
        ahead[row + 4] = value_size
        if key_size >= 0 and offset >= first and offset <= last:
            low, high = _hash(data, key_at, key_size, secret_0, secret_1)
            _prefetch(table, 3 * _home(low, slots))
            ahead[row + 5] = _int64(low)
            ahead[row + 6] = _int64(high)
        at = end
    return count


@kernel(_I64(_BYTES, _I64, _I64, _I64, _I64, _TABLE, _NUMBERS, _STATE))
def map_records(
    data: Bytes, at: int, limit: int, count: int, base_offset: int, table: Words, job: Numbers, tally: Numbers
) -> int:
    ahead = np.empty(_AHEAD_MAX * _AHEAD_FIELDS, np.int64)
    slots, start = job[_SLOTS], job[_START]
    while count > 0:
        some = _look_ahead(data, at, limit, count, base_offset, start, _INT64_MAX, table, job, ahead)
        if some < 0:
            return _BAD_RECORD
        for index in range(some):
            row = index * _AHEAD_FIELDS
            at = ahead[row]
            offset = ahead[row + 2]
            if offset < start:
                continue
            if ahead[row + 3] >= 0:
                if tally[_T_ENTRIES] >= job[_ENTRIES_MAX]:
                    return _FULL
                low, high = np.uint64(ahead[row + 5]), np.uint64(ahead[row + 6])
                entry = 3 * _slot(table, slots, low, high)
                if table[entry + 2] == np.uint64(0):
                    table[entry] = low
                    table[entry + 1] = high
                    tally[_T_ENTRIES] += 1
                table[entry + 2] = np.uint64(offset + 1)
            tally[_T_RECORDS] += 1
            tally[_T_LATEST] = offset
        count -= some
    return _MORE


@kernel(types.UniTuple(_I64, 2)(_BYTES, _I64, _I64))
def _batch(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """What can be said of the bytes at `at`, and the size of the batch there."""
    if end - at < 61:
        return _MORE, 0
    size = _signed(data, at + 8, 4) + 12
    if size < 61 or data[at + 16] != 2 or _signed(data, at + 57, 4) < 0 or _signed(data, at + 23, 4) < 0:
        return _BAD_HEADER, 0
    return (_MORE if size > end - at else -1), size


@kernel(types.UniTuple(_I64, 2)(_BYTES, _I64, _I64, _I64, _TABLE, _NUMBERS, _STATE))
def map_batches(
    data: Bytes, at: int, end: int, others: int, table: Words, job: Numbers, tally: Numbers
) -> tuple[int, int]:
    while True:
        code, size = _batch(data, at, end)
        if code >= 0:
            return code, at
        base_offset = _signed(data, at, 8)
        last_offset = base_offset + _signed(data, at + 23, 4)
        if last_offset >= job[_START]:
            if _signed(data, at + 21, 2) & others:
                return _OTHER, at
            if _crc(data, at + 21, at + size) != _signed(data, at + 17, 4) & 0xFFFFFFFF:
                return _BAD_CRC, at
            count = _signed(data, at + 57, 4)
            code = map_records(data, at + 61, at + size, count, base_offset, table, job, tally)
            if code != _MORE:
                return code, at
            tally[_T_LATEST] = last_offset
        at += size


# -- rewriting -----------------------------------------------------------------------------------------------


@kernel(types.UniTuple(_I64, 5)(_BYTES, _I64, _I64, _I64, _I64, _I64, _I64, _ROOM, _I64, _TABLE, _NUMBERS))
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
    ahead = np.empty(_AHEAD_MAX * _AHEAD_FIELDS, np.int64)
    slots, latest = job[_SLOTS], job[_LATEST]
    kept, tombstones, max_timestamp = 0, 0, _int64(-1)
    run, left = at, count
    while left > 0:
        some = _look_ahead(data, at, limit, left, base_offset, _INT64_MIN, latest, table, job, ahead)
        if some < 0:
            return -1, 0, 0, 0, 0
        for index in range(some):
            row = index * _AHEAD_FIELDS
            end, offset, has_value = ahead[row], ahead[row + 2], ahead[row + 4] >= 0
            keeps = offset > latest
            if not keeps and ahead[row + 3] >= 0:
                entry = 3 * _slot(table, slots, np.uint64(ahead[row + 5]), np.uint64(ahead[row + 6]))
                found = _int64(table[entry + 2]) - 1
                keeps = found <= offset and (has_value or not drops_tombstones)
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


@kernel(_I64(_BYTES, _I64, _I64, _I64, _I64, _ROOM, _I64))
def shift_records(data: Bytes, at: int, limit: int, count: int, shift: int, out: Bytes, out_at: int) -> int:
    for _ in range(count):
        size, start = _number(data, at, limit)
        end = start + size
        timestamp_delta, rest = _number(data, start + 1, end)
        delta = timestamp_delta + shift
        size = 1 + _number_bytes(delta) + end - rest
        out_at = _put_number(out, out_at, size)
        out[out_at] = data[start]
        out_at = _put_number(out, out_at + 1, delta)
        _copy(out, out_at, data, rest, end - rest)
        out_at += end - rest
        at = end
    return out_at


@kernel(types.void(_I64, _I64, _I64, _NUMBERS, _STATE, _ROOM, _ROOM))
def note_batch(
    size: int, last_offset: int, max_timestamp: int, job: Numbers, state: Numbers, index: Bytes, times: Bytes
) -> None:
    relative = last_offset - job[_BASE]
    if max_timestamp > state[_S_MAX_TIME]:
        state[_S_MAX_TIME] = max_timestamp
        state[_S_MAX_TIME_OFFSET] = relative
    if state[_S_SINCE] > job[_INTERVAL] and state[_S_INDEX] + 8 <= index.shape[0]:
        _put(index, state[_S_INDEX], relative, 4)
        _put(index, state[_S_INDEX] + 4, state[_S_POSITION], 4)
        state[_S_INDEX] += 8
        if state[_S_MAX_TIME] > state[_S_LAST_TIME] and state[_S_TIMES] + 24 <= times.shape[0]:
            _put(times, state[_S_TIMES], state[_S_MAX_TIME], 8)
            _put(times, state[_S_TIMES] + 8, state[_S_MAX_TIME_OFFSET], 4)
            state[_S_TIMES] += 12
            state[_S_LAST_TIME] = state[_S_MAX_TIME]
        state[_S_SINCE] = 0
    state[_S_SINCE] += size
    state[_S_POSITION] += size
    state[_S_OUT] += size


@kernel(types.boolean(_NUMBERS, _I64))
def _has(numbers: Numbers, wanted: int) -> bool:
    low, high = 0, numbers.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if numbers[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return bool(low < numbers.shape[0] and numbers[low] == wanted)


@kernel(_I64(_BYTES, _I64, _I64, _I64, _ROOM, _ROOM, _TABLE, _NUMBERS, _NUMBERS, _STATE))
def _clean_batch(
    data: Bytes,
    at: int,
    size: int,
    is_wanted: int,
    out: Bytes,
    scratch: Bytes,
    table: Words,
    kept_offsets: Numbers,
    job: Numbers,
    state: Numbers,
) -> int:
    """Write what is to be kept of a batch behind what `out` has, and give its size; -1 for a bad record."""
    out_at = state[_S_OUT]
    base_offset = _signed(data, at, 8)
    count = _signed(data, at + 57, 4)
    state[_S_READ] += count
    if base_offset > job[_LATEST]:
        _copy(out, out_at, data, at, size)
        state[_S_KEPT] += count
        return size
    attributes = _signed(data, at + 21, 2)
    base_timestamp = _signed(data, at + 27, 8)
    max_timestamp = _signed(data, at + 35, 8)
    has_horizon = attributes & 64 != 0
    drops = has_horizon and base_timestamp <= job[_NOW_MS]
    kept, tombstones, found_max, end, _ = keep_records(
        data, at + 61, at + size, count, base_offset, base_timestamp, drops, out, out_at + 61, table, job
    )
    if kept < 0:
        return -1
    state[_S_KEPT] += kept
    new_horizon = tombstones > 0 and not has_horizon
    if kept == count and not new_horizon and (count > 0 or is_wanted):
        _copy(out, out_at, data, at, size)
        return size
    if kept == 0 and not (is_wanted or _has(kept_offsets, base_offset + _signed(data, at + 23, 4))):
        return 0
    _copy(out, out_at, data, at, 61)
    if new_horizon:
        shift = base_timestamp - job[_HORIZON_MS]
        if kept == count:
            end = shift_records(data, at + 61, at + size, count, shift, out, out_at + 61)
        else:
            used = end - out_at - 61
            _copy(scratch, 0, out, out_at + 61, used)
            end = shift_records(scratch, 0, used, kept, shift, out, out_at + 61)
        attributes |= 64
        _put(out, out_at + 27, job[_HORIZON_MS], 8)
    if kept == 0:
        attributes &= ~(64 | 7)
        _put(out, out_at + 27, max_timestamp, 8)
        end = out_at + 61
    elif not attributes & 8:
        _put(out, out_at + 35, found_max, 8)
    _put(out, out_at + 8, end - out_at - 12, 4)
    _put(out, out_at + 21, attributes, 2)
    _put(out, out_at + 57, kept, 4)
    _put(out, out_at + 17, _crc(out, out_at + 21, end), 4)
    return end - _int64(out_at)


@kernel(
    types.UniTuple(_I64, 2)(
        _BYTES, _I64, _I64, _I64, _I64, _ROOM, _ROOM, _TABLE, _NUMBERS, _NUMBERS, _STATE, _ROOM, _ROOM
    )
)
def clean_batches(
    data: Bytes,
    at: int,
    end: int,
    last_end: int,
    others: int,
    out: Bytes,
    scratch: Bytes,
    table: Words,
    kept_offsets: Numbers,
    job: Numbers,
    state: Numbers,
    index: Bytes,
    times: Bytes,
) -> tuple[int, int]:
    while True:
        code, size = _batch(data, at, end)
        if code >= 0:
            return code, at
        if _signed(data, at + 21, 2) & others:
            return _OTHER, at
        out_at = state[_S_OUT]
        if out.shape[0] - out_at < 3 * size + 61:
            return _FULL, at
        if _crc(data, at + 21, at + size) != _signed(data, at + 17, 4) & 0xFFFFFFFF:
            return _BAD_CRC, at
        is_wanted = 1 if at + size == last_end else 0
        written = _clean_batch(data, at, size, is_wanted, out, scratch, table, kept_offsets, job, state)
        if written < 0:
            return _BAD_RECORD, at
        if written > 0:
            last_offset = _signed(out, out_at, 8) + _signed(out, out_at + 23, 4)
            note_batch(written, last_offset, _signed(out, out_at + 35, 8), job, state, index, times)
        at += size
