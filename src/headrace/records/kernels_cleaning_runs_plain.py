"""The plain Python twins of `kernels_cleaning_runs`: the same answers, the same numbers in the same rows."""

from bisect import bisect_left
from typing import Final

from headrace.records.cleaning_layout import ENTRY_BYTES, Fate, Run, Span, Tally

_RUN: Final = len(Run)
_SPAN: Final = len(Span)


def _join_runs(runs: memoryview, tally: memoryview) -> None:
    """Make one of two neighbours each; give up where that makes little room."""
    before, count, at = tally[Tally.RUNS], 0, 0
    while at < before:
        row = count * _RUN
        runs[row : row + _RUN] = runs[at * _RUN : (at + 1) * _RUN]
        at += 1
        following = at * _RUN
        if at < before and runs[following + Run.POSITION] == runs[row + Run.END_POSITION]:
            runs[row + Run.END] = runs[following + Run.END]
            runs[row + Run.END_POSITION] = runs[following + Run.END_POSITION]
            runs[row + Run.RECORDS] += runs[following + Run.RECORDS]
            runs[row + Run.TOMBSTONES] += runs[following + Run.TOMBSTONES]
            at += 1
        count += 1
    tally[Tally.RUNS] = count
    mean = (runs[(count - 1) * _RUN + Run.END_POSITION] - runs[Run.POSITION]) // count
    makes_room = 4 * count <= 3 * before
    tally[Tally.RUN_BYTES] = max(2 * tally[Tally.RUN_BYTES], mean) if makes_room else -1


def note_run(
    position: int,
    size: int,
    first: int,
    end: int,
    records: int,
    tombstones: int,
    runs: memoryview,
    tally: memoryview,
) -> None:
    """Note a batch: with the run before it if that is short, else as a run of its own. Where there is no room
    for one, short runs are joined first."""
    if tally[Tally.RUN_BYTES] < 0:
        return
    if (tally[Tally.RUNS] + 1) * _RUN > len(runs):
        _join_runs(runs, tally)
        if tally[Tally.RUN_BYTES] < 0:
            return
    row = (tally[Tally.RUNS] - 1) * _RUN
    goes_on = (
        row >= 0
        and runs[row + Run.END_POSITION] == position
        and position + size - runs[row + Run.POSITION] <= tally[Tally.RUN_BYTES]
    )
    if not goes_on:
        row += _RUN
        tally[Tally.RUNS] += 1
        runs[row + Run.FIRST] = first
        runs[row + Run.POSITION] = position
        runs[row + Run.RECORDS] = runs[row + Run.TOMBSTONES] = runs[row + Run.LIVE] = 0
    runs[row + Run.END] = end
    runs[row + Run.END_POSITION] = position + size
    runs[row + Run.RECORDS] += records
    runs[row + Run.TOMBSTONES] += tombstones


def count_live(
    table: bytearray | memoryview, slots: int, runs: memoryview, count: int, places: memoryview
) -> None:
    """Count in each run the records that the table knows as the last of their keys. `places` is room for the
    compiled twin, which finds runs by it."""
    firsts = [runs[run * _RUN + Run.FIRST] for run in range(count)]
    offsets = memoryview(table).cast("B")[: slots * ENTRY_BYTES].cast("Q")[2::3]
    for found in offsets:
        run = bisect_left(firsts, found) - 1  # an entry has the offset plus one
        if found and run >= 0 and found <= runs[run * _RUN + Run.END]:
            runs[run * _RUN + Run.LIVE] += 1


def _put_span(
    spans: memoryview, count: int, start: int, end: int, fate: int, records: int, bytes_min: int
) -> int:
    row = (count - 1) * _SPAN
    if count and spans[row + Span.FATE] != fate and spans[row + Span.END] - spans[row] < bytes_min:
        # Too short to be worth a read of its own.
        spans[row + Span.FATE], spans[row + Span.RECORDS] = Fate.CLEAN, 0
        if count > 1 and spans[row - _SPAN + Span.FATE] == Fate.CLEAN:
            spans[row - _SPAN + Span.END] = spans[row + Span.END]
            count -= 1
            row -= _SPAN
    if not count or spans[row + Span.FATE] != fate:
        row += _SPAN
        count += 1
        spans[row], spans[row + Span.FATE], spans[row + Span.RECORDS] = start, fate, 0
    spans[row + Span.END] = end
    spans[row + Span.RECORDS] += records
    return count


def plan_spans(
    runs: memoryview,
    count: int,
    origin: int,
    size: int,
    keeps_last: int,
    bytes_min: int,
    kept_offsets: memoryview,
    spans: memoryview,
) -> int:
    """What becomes of the parts of a file that begins at the position `origin`; how many spans that makes.

    A run in which nothing lives goes, one in which all lives stays. Each record is looked up in the others,
    in what is in no run, where a batch must stay without records, and in what is shorter than `bytes_min`.
    """
    planned = done = run = 0
    while run < count and runs[run * _RUN + Run.POSITION] < origin:
        run += 1
    while done < size:
        row = run * _RUN
        if run == count or runs[row + Run.POSITION] >= origin + size or (planned + 3) * _SPAN > len(spans):
            return _put_span(spans, planned, done, size, Fate.CLEAN, 0, bytes_min)
        start, end = runs[row + Run.POSITION] - origin, runs[row + Run.END_POSITION] - origin
        if start > done:
            planned = _put_span(spans, planned, done, start, Fate.CLEAN, 0, bytes_min)
        live, records, fate = runs[row + Run.LIVE], runs[row + Run.RECORDS], Fate.CLEAN
        if live == 0 and not (keeps_last and end == size):
            kept = bisect_left(kept_offsets, runs[row + Run.FIRST])
            if kept == len(kept_offsets) or kept_offsets[kept] >= runs[row + Run.END]:
                fate = Fate.SKIP
        elif live == records and not runs[row + Run.TOMBSTONES]:
            fate = Fate.COPY
        planned = _put_span(spans, planned, start, end, fate, records, bytes_min)
        done = end
        run += 1
    return planned
