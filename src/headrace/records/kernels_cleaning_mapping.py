"""The first half of compaction at native speed: keys of batches into the table, and runs of batches noted.

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
    STATE,
    TABLE,
    TURN_BYTES,
    Bytes,
    Numbers,
    Words,
    look_ahead,
    next_turn,
    read_signed,
    see_batch,
    slot_of,
    types,
)
from headrace.records.kernels_cleaning_runs import note_run
from headrace.records.kernels_llvm import crc32c as _crc

PARTS: Final = "7d6daec1"
"""Of the parts that these kernels were made of: see `kernels_cleaning_parts`."""


_int64 = cast(Callable[[Any], int], np.int64)

# Those of `cleaning_layout` as plain numbers: numba's cache does not look into other modules.
_MORE, _FULL, _OTHER, _BAD_CRC, _BAD_RECORD = 0, 1, 2, 4, 5
_SLOTS, _START, _ENTRIES_MAX, _NOTED_END = 0, 1, 2, 10
_T_ENTRIES, _T_LATEST, _T_RECORDS, _T_TOMBSTONES = 0, 1, 2, 3
_INT64_MAX: Final = 2**63 - 1


@kernel(I64(BYTES, I64, I64, I64, I64, TABLE, NUMBERS, STATE))
def _map_records(
    data: Bytes, at: int, limit: int, count: int, base_offset: int, table: Words, job: Numbers, tally: Numbers
) -> int:
    ahead = np.empty(AHEAD_MAX * AHEAD_FIELDS, np.int64)
    slots, start, noted_end = job[_SLOTS], job[_START], job[_NOTED_END]
    while count > 0:
        some = look_ahead(data, at, limit, count, base_offset, start, _INT64_MAX, table, job, ahead)
        if some < 0:
            return _BAD_RECORD
        for index in range(some):
            row = index * AHEAD_FIELDS
            at = ahead[row]
            offset = ahead[row + 2]
            if offset < start:
                continue
            if ahead[row + 3] >= 0:
                if tally[_T_ENTRIES] >= job[_ENTRIES_MAX]:
                    return _FULL
                low, high = np.uint64(ahead[row + 5]), np.uint64(ahead[row + 6])
                entry = 3 * slot_of(table, slots, low, high)
                if table[entry + 2] == np.uint64(0):
                    table[entry] = low
                    table[entry + 1] = high
                    tally[_T_ENTRIES] += 1
                elif _int64(table[entry + 2]) <= noted_end:
                    place = _int64(table[entry + 2]) - 1 - start
                    table[3 * slots + (place >> 6)] |= np.uint64(1) << np.uint64(place & 63)
                table[entry + 2] = np.uint64(offset + 1)
            tally[_T_RECORDS] += 1
            if ahead[row + 4] < 0:
                tally[_T_TOMBSTONES] += 1
            tally[_T_LATEST] = offset
        count -= some
    return _MORE


@kernel(I64(BYTES, I64, I64, I64, I64, I64, I64, I64, TABLE, NUMBERS, STATE, STATE))
def map_batch(
    data: Bytes,
    at: int,
    limit: int,
    count: int,
    base_offset: int,
    last_offset: int,
    position: int,
    size: int,
    table: Words,
    job: Numbers,
    tally: Numbers,
    runs: Numbers,
) -> int:
    tombstones = tally[_T_TOMBSTONES]
    code = _map_records(data, at, limit, count, base_offset, table, job, tally)
    if code == _MORE:
        tally[_T_LATEST] = max(tally[_T_LATEST], last_offset)
        if count > 0 and base_offset >= job[_START] and position >= 0:
            tombstones = tally[_T_TOMBSTONES] - tombstones
            note_run(position, size, base_offset, last_offset + 1, count, tombstones, runs, tally)
    return code


@kernel(types.UniTuple(I64, 2)(BYTES, I64, I64, I64, I64, TABLE, NUMBERS, STATE, STATE))
def map_batches(
    data: Bytes,
    at: int,
    end: int,
    others: int,
    position: int,
    table: Words,
    job: Numbers,
    tally: Numbers,
    runs: Numbers,
) -> tuple[int, int]:
    turn_end = at + TURN_BYTES
    while True:
        turn_end = next_turn(at, turn_end)
        code, size = see_batch(data, at, end)
        if code >= 0:
            return code, at
        base_offset = read_signed(data, at, 8)
        last_offset = base_offset + read_signed(data, at + 23, 4)
        if last_offset >= job[_START]:
            if read_signed(data, at + 21, 2) & others:
                return _OTHER, at
            if _crc(data, at + 21, at + size) != read_signed(data, at + 17, 4) & 0xFFFFFFFF:
                return _BAD_CRC, at
            count = read_signed(data, at + 57, 4)
            code = map_batch(
                data,
                at + 61,
                at + size,
                count,
                base_offset,
                last_offset,
                position + at,
                size,
                table,
                job,
                tally,
                runs,
            )
            if code != _MORE:
                return code, at
        at += size
