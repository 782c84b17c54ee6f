"""Runs of batches at native speed: what is noted of them, what lives in them, and what becomes of them.

Compiled by numba; `kernels_cleaning_runs_plain` has the twins, which say what each answers.
"""

from collections.abc import Callable
from typing import Any, Final, cast

import numpy as np

from headrace.records.kernels import kernel
from headrace.records.kernels_cleaning_parts import (
    I64,
    NUMBERS,
    STATE,
    TABLE,
    TURN_BYTES,
    Numbers,
    Words,
    next_turn,
    part,
    types,
)

PARTS: Final = "42eca254"
"""Of the parts that these kernels were made of: see `kernels_cleaning_parts`."""

_int64 = cast(Callable[[Any], int], np.int64)

# Those of `cleaning_layout` as plain numbers: numba's cache does not look into other modules.
_T_RUNS, _T_RUN_BYTES = 4, 5
_FIRST, _END, _POSITION, _END_POSITION, _RECORDS, _TOMBSTONES, _LIVE = range(7)
_RUN: Final = 7
_CLEAN, _COPY, _SKIP = 0, 1, 2
_SPAN: Final = 4
_ENTRY_BYTES: Final = 24


@part
def _join_runs(runs: Numbers, tally: Numbers) -> None:
    """Make one of two neighbours each; give up where that makes little room."""
    before, count, at = tally[_T_RUNS], 0, 0
    while at < before:
        row, source = count * _RUN, at * _RUN
        for column in range(_RUN):
            runs[row + column] = runs[source + column]
        at += 1
        following = at * _RUN
        if at < before and runs[following + _POSITION] == runs[row + _END_POSITION]:
            runs[row + _END] = runs[following + _END]
            runs[row + _END_POSITION] = runs[following + _END_POSITION]
            runs[row + _RECORDS] += runs[following + _RECORDS]
            runs[row + _TOMBSTONES] += runs[following + _TOMBSTONES]
            at += 1
        count += 1
    tally[_T_RUNS] = count
    mean = (runs[(count - 1) * _RUN + _END_POSITION] - runs[_POSITION]) // count
    tally[_T_RUN_BYTES] = max(2 * tally[_T_RUN_BYTES], mean) if 4 * count <= 3 * before else _int64(-1)


@part
def note_run(
    position: int,
    size: int,
    first: int,
    end: int,
    records: int,
    tombstones: int,
    runs: Numbers,
    tally: Numbers,
) -> None:
    if tally[_T_RUN_BYTES] < 0:
        return
    if (tally[_T_RUNS] + 1) * _RUN > runs.shape[0]:
        _join_runs(runs, tally)
        if tally[_T_RUN_BYTES] < 0:
            return
    row = (tally[_T_RUNS] - 1) * _RUN
    goes_on = (
        row >= 0
        and runs[row + _END_POSITION] == position
        and position + size - runs[row + _POSITION] <= tally[_T_RUN_BYTES]
    )
    if not goes_on:
        row += _RUN
        tally[_T_RUNS] += 1
        runs[row + _FIRST] = first
        runs[row + _POSITION] = position
        runs[row + _RECORDS] = runs[row + _TOMBSTONES] = runs[row + _LIVE] = 0
    runs[row + _END] = end
    runs[row + _END_POSITION] = position + size
    runs[row + _RECORDS] += records
    runs[row + _TOMBSTONES] += tombstones


@kernel(types.void(TABLE, I64, STATE, I64, STATE))
def count_live(table: Words, slots: int, runs: Numbers, count: int, places: Numbers) -> None:
    if count == 0:
        return
    start, last = runs[_FIRST], (count - 1) * _RUN
    step = (runs[last + _END] - start) // places.shape[0] + 1
    run = 0
    for place in range(places.shape[0]):
        while run + 1 < count and runs[(run + 1) * _RUN + _FIRST] <= start + place * step:
            run += 1
        places[place] = run
    turn_end = TURN_BYTES
    for slot in range(slots):
        turn_end = next_turn(_ENTRY_BYTES * slot, turn_end)
        offset = _int64(table[3 * slot + 2]) - 1
        if offset < start or offset >= runs[last + _END]:
            continue
        run = places[(offset - start) // step]
        while run + 1 < count and runs[(run + 1) * _RUN + _FIRST] <= offset:
            run += 1
        if offset < runs[run * _RUN + _END]:
            runs[run * _RUN + _LIVE] += 1


@part
def _put_span(
    spans: Numbers, count: int, start: int, end: int, fate: int, records: int, bytes_min: int
) -> int:
    row = (count - 1) * _SPAN
    if count > 0 and spans[row + 2] != fate and spans[row + 1] - spans[row] < bytes_min:
        # Too short to be worth a read of its own.
        spans[row + 2], spans[row + 3] = _CLEAN, 0
        if count > 1 and spans[row - _SPAN + 2] == _CLEAN:
            spans[row - _SPAN + 1] = spans[row + 1]
            count -= 1
            row -= _SPAN
    if count == 0 or spans[row + 2] != fate:
        row += _SPAN
        count += 1
        spans[row], spans[row + 2], spans[row + 3] = start, fate, 0
    spans[row + 1] = end
    spans[row + 3] += records
    return count


@part
def _has_between(numbers: Numbers, first: int, end: int) -> bool:
    low, high = 0, numbers.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if numbers[middle] < first:
            low = middle + 1
        else:
            high = middle
    return bool(low < numbers.shape[0] and numbers[low] < end)


@part
def _first_run(runs: Numbers, count: int, position: int) -> int:
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if runs[middle * _RUN + _POSITION] < position:
            low = middle + 1
        else:
            high = middle
    return low


@kernel(I64(STATE, I64, I64, I64, I64, I64, NUMBERS, STATE))
def plan_spans(
    runs: Numbers,
    count: int,
    origin: int,
    size: int,
    keeps_last: int,
    bytes_min: int,
    kept_offsets: Numbers,
    spans: Numbers,
) -> int:
    planned, done = 0, _int64(0)
    run = _first_run(runs, count, origin)
    while done < size:
        row = run * _RUN
        if run == count or runs[row + _POSITION] >= origin + size:
            return _put_span(spans, planned, done, size, _CLEAN, 0, bytes_min)
        start, end = runs[row + _POSITION] - origin, runs[row + _END_POSITION] - origin
        if (planned + 3) * _SPAN > spans.shape[0]:
            return _put_span(spans, planned, done, size, _CLEAN, 0, bytes_min)
        if start > done:
            planned = _put_span(spans, planned, done, start, _CLEAN, 0, bytes_min)
        live, records, fate = runs[row + _LIVE], runs[row + _RECORDS], _CLEAN
        is_kept = keeps_last and end == size
        if live == 0 and not is_kept:
            if not _has_between(kept_offsets, runs[row + _FIRST], runs[row + _END]):
                fate = _SKIP
        elif live == records and runs[row + _TOMBSTONES] == 0:
            fate = _COPY
        planned = _put_span(spans, planned, start, end, fate, records, bytes_min)
        done = end
        run += 1
    return planned
