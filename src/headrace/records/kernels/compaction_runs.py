"""Runs of batches: what is noted of them, what lives in them, and what becomes of them."""

from typing import Final

from headrace.records.kernels.compaction_parts import TURN_BYTES, next_turn
from headrace.records.kernels.notation import Cells, Numbers, Words, kernel, number, part

# Those of `compaction.layout` as plain numbers: constants cost nothing.
_T_RUNS, _T_RUN_BYTES = 4, 5
_FIRST, _END, _POSITION, _END_POSITION, _RECORDS, _TOMBSTONES, _LIVE = range(7)
_RUN: Final = 7
_CLEAN, _COPY, _SKIP = 0, 1, 2
_SPAN: Final = 4
_ENTRY_BYTES: Final = 24


@part
def _join_runs(runs: Cells, counters: Cells) -> None:
    """Make one of two neighbours each; give up where that makes little room."""
    before, count, at = counters[_T_RUNS], 0, 0
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
    counters[_T_RUNS] = count
    mean = (runs[(count - 1) * _RUN + _END_POSITION] - runs[_POSITION]) // count
    counters[_T_RUN_BYTES] = max(2 * counters[_T_RUN_BYTES], mean) if 4 * count <= 3 * before else -1


@part
def note_run(
    position: int,
    size: int,
    first: int,
    end: int,
    records: int,
    tombstones: int,
    runs: Cells,
    counters: Cells,
) -> None:
    """Note a batch: with the run before it if that is short, else as a run of its own. Where there is no room
    for one, short runs are joined first."""
    if counters[_T_RUN_BYTES] < 0:
        return
    if (counters[_T_RUNS] + 1) * _RUN > len(runs):
        _join_runs(runs, counters)
        if counters[_T_RUN_BYTES] < 0:
            return
    row = (counters[_T_RUNS] - 1) * _RUN
    goes_on = (
        row >= 0
        and runs[row + _END_POSITION] == position
        and position + size - runs[row + _POSITION] <= counters[_T_RUN_BYTES]
    )
    if not goes_on:
        row += _RUN
        counters[_T_RUNS] += 1
        runs[row + _FIRST] = first
        runs[row + _POSITION] = position
        runs[row + _RECORDS] = runs[row + _TOMBSTONES] = runs[row + _LIVE] = 0
    runs[row + _END] = end
    runs[row + _END_POSITION] = position + size
    runs[row + _RECORDS] += records
    runs[row + _TOMBSTONES] += tombstones


@kernel
def count_live(table: Words, slots: int, runs: Cells, count: int, places: Cells) -> None:
    """Count in each run the records that the table knows as the last of their keys. `places` is room for the
    compiled twin, which finds runs by it."""
    if count == 0:
        return
    start, last = runs[_FIRST], (count - 1) * _RUN
    step = (runs[last + _END] - start) // len(places) + 1
    run = 0
    for place in range(len(places)):
        while run + 1 < count and runs[(run + 1) * _RUN + _FIRST] <= start + place * step:
            run += 1
        places[place] = run
    turn_end = TURN_BYTES
    for slot in range(slots):
        turn_end = next_turn(_ENTRY_BYTES * slot, turn_end)
        offset = number(table[3 * slot + 2]) - 1
        if offset < start or offset >= runs[last + _END]:
            continue
        run = places[(offset - start) // step]
        while run + 1 < count and runs[(run + 1) * _RUN + _FIRST] <= offset:
            run += 1
        if offset < runs[run * _RUN + _END]:
            runs[run * _RUN + _LIVE] += 1


@part
def _put_span(
    spans: Cells, count: int, start: int, end: int, action: int, records: int, bytes_min: int
) -> int:
    row = (count - 1) * _SPAN
    if count > 0 and spans[row + 2] != action and spans[row + 1] - spans[row] < bytes_min:
        # Too short to be worth a read of its own.
        spans[row + 2], spans[row + 3] = _CLEAN, 0
        if count > 1 and spans[row - _SPAN + 2] == _CLEAN:
            spans[row - _SPAN + 1] = spans[row + 1]
            count -= 1
            row -= _SPAN
    if count == 0 or spans[row + 2] != action:
        row += _SPAN
        count += 1
        spans[row], spans[row + 2], spans[row + 3] = start, action, 0
    spans[row + 1] = end
    spans[row + 3] += records
    return count


@part
def _has_between(numbers: Numbers, first: int, end: int) -> bool:
    low, high = 0, len(numbers)
    while low < high:
        middle = (low + high) >> 1
        if numbers[middle] < first:
            low = middle + 1
        else:
            high = middle
    return bool(low < len(numbers) and numbers[low] < end)


@part
def _first_run(runs: Cells, count: int, position: int) -> int:
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if runs[middle * _RUN + _POSITION] < position:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def plan_spans(
    runs: Cells,
    count: int,
    origin: int,
    size: int,
    keeps_last: int,
    bytes_min: int,
    kept_offsets: Numbers,
    spans: Cells,
) -> int:
    """What becomes of the parts of a file that begins at the position `origin`; how many spans that makes.

    A run in which nothing lives goes, one in which all lives stays. Each record is looked up in the others,
    in what is in no run, where a batch must stay without records, and in what is shorter than `bytes_min`.
    """
    planned, done = 0, 0
    run = _first_run(runs, count, origin)
    while done < size:
        row = run * _RUN
        if run == count or runs[row + _POSITION] >= origin + size:
            return _put_span(spans, planned, done, size, _CLEAN, 0, bytes_min)
        start, end = runs[row + _POSITION] - origin, runs[row + _END_POSITION] - origin
        if (planned + 3) * _SPAN > len(spans):
            return _put_span(spans, planned, done, size, _CLEAN, 0, bytes_min)
        if start > done:
            planned = _put_span(spans, planned, done, start, _CLEAN, 0, bytes_min)
        live, records, action = runs[row + _LIVE], runs[row + _RECORDS], _CLEAN
        is_kept = keeps_last and end == size
        if live == 0 and not is_kept:
            if not _has_between(kept_offsets, runs[row + _FIRST], runs[row + _END]):
                action = _SKIP
        elif live == records and runs[row + _TOMBSTONES] == 0:
            action = _COPY
        planned = _put_span(spans, planned, start, end, action, records, bytes_min)
        done = end
        run += 1
    return planned
