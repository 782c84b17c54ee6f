"""The oracle of `kernels.compaction_runs`."""

from bisect import bisect_left
from typing import Final

from headrace.records.compaction.layout import ENTRY_BYTES, MapCounter, RunColumn, SpanAction, SpanColumn

_RUN: Final = len(RunColumn)
_SPAN: Final = len(SpanColumn)


def _join_runs(runs: memoryview, counters: memoryview) -> None:
    """Make one of two neighbours each; give up where that makes little room."""
    before, count, at = counters[MapCounter.RUNS], 0, 0
    while at < before:
        row = count * _RUN
        runs[row : row + _RUN] = runs[at * _RUN : (at + 1) * _RUN]
        at += 1
        following = at * _RUN
        if at < before and runs[following + RunColumn.POSITION] == runs[row + RunColumn.END_POSITION]:
            runs[row + RunColumn.END] = runs[following + RunColumn.END]
            runs[row + RunColumn.END_POSITION] = runs[following + RunColumn.END_POSITION]
            runs[row + RunColumn.RECORDS] += runs[following + RunColumn.RECORDS]
            runs[row + RunColumn.TOMBSTONES] += runs[following + RunColumn.TOMBSTONES]
            at += 1
        count += 1
    counters[MapCounter.RUNS] = count
    mean = (runs[(count - 1) * _RUN + RunColumn.END_POSITION] - runs[RunColumn.POSITION]) // count
    makes_room = 4 * count <= 3 * before
    counters[MapCounter.RUN_BYTES] = max(2 * counters[MapCounter.RUN_BYTES], mean) if makes_room else -1


def note_run(
    position: int,
    size: int,
    first: int,
    end: int,
    records: int,
    tombstones: int,
    runs: memoryview,
    counters: memoryview,
) -> None:
    """Note a batch: with the run before it if that is short, else as a run of its own. Where there is no room
    for one, short runs are joined first."""
    if counters[MapCounter.RUN_BYTES] < 0:
        return
    if (counters[MapCounter.RUNS] + 1) * _RUN > len(runs):
        _join_runs(runs, counters)
        if counters[MapCounter.RUN_BYTES] < 0:
            return
    row = (counters[MapCounter.RUNS] - 1) * _RUN
    goes_on = (
        row >= 0
        and runs[row + RunColumn.END_POSITION] == position
        and position + size - runs[row + RunColumn.POSITION] <= counters[MapCounter.RUN_BYTES]
    )
    if not goes_on:
        row += _RUN
        counters[MapCounter.RUNS] += 1
        runs[row + RunColumn.FIRST] = first
        runs[row + RunColumn.POSITION] = position
        runs[row + RunColumn.RECORDS] = runs[row + RunColumn.TOMBSTONES] = runs[row + RunColumn.LIVE] = 0
    runs[row + RunColumn.END] = end
    runs[row + RunColumn.END_POSITION] = position + size
    runs[row + RunColumn.RECORDS] += records
    runs[row + RunColumn.TOMBSTONES] += tombstones


def count_live(
    table: bytearray | memoryview, slots: int, runs: memoryview, count: int, places: memoryview
) -> None:
    """Count in each run the records that the table knows as the last of their keys. `places` is room for the
    compiled twin, which finds runs by it."""
    firsts = [runs[run * _RUN + RunColumn.FIRST] for run in range(count)]
    offsets = memoryview(table).cast("B")[: slots * ENTRY_BYTES].cast("Q")[2::3]
    for found in offsets:
        run = bisect_left(firsts, found) - 1  # an entry has the offset plus one
        if found and run >= 0 and found <= runs[run * _RUN + RunColumn.END]:
            runs[run * _RUN + RunColumn.LIVE] += 1


def _put_span(
    spans: memoryview, count: int, start: int, end: int, action: int, records: int, bytes_min: int
) -> int:
    row = (count - 1) * _SPAN
    if (
        count
        and spans[row + SpanColumn.ACTION] != action
        and spans[row + SpanColumn.END] - spans[row] < bytes_min
    ):
        # Too short to be worth a read of its own.
        spans[row + SpanColumn.ACTION], spans[row + SpanColumn.RECORDS] = SpanAction.CLEAN, 0
        if count > 1 and spans[row - _SPAN + SpanColumn.ACTION] == SpanAction.CLEAN:
            spans[row - _SPAN + SpanColumn.END] = spans[row + SpanColumn.END]
            count -= 1
            row -= _SPAN
    if not count or spans[row + SpanColumn.ACTION] != action:
        row += _SPAN
        count += 1
        spans[row], spans[row + SpanColumn.ACTION], spans[row + SpanColumn.RECORDS] = start, action, 0
    spans[row + SpanColumn.END] = end
    spans[row + SpanColumn.RECORDS] += records
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
    while run < count and runs[run * _RUN + RunColumn.POSITION] < origin:
        run += 1
    while done < size:
        row = run * _RUN
        if (
            run == count
            or runs[row + RunColumn.POSITION] >= origin + size
            or (planned + 3) * _SPAN > len(spans)
        ):
            return _put_span(spans, planned, done, size, SpanAction.CLEAN, 0, bytes_min)
        start, end = runs[row + RunColumn.POSITION] - origin, runs[row + RunColumn.END_POSITION] - origin
        if start > done:
            planned = _put_span(spans, planned, done, start, SpanAction.CLEAN, 0, bytes_min)
        live, records, action = runs[row + RunColumn.LIVE], runs[row + RunColumn.RECORDS], SpanAction.CLEAN
        if live == 0 and not (keeps_last and end == size):
            kept = bisect_left(kept_offsets, runs[row + RunColumn.FIRST])
            if kept == len(kept_offsets) or kept_offsets[kept] >= runs[row + RunColumn.END]:
                action = SpanAction.SKIP
        elif live == records and not runs[row + RunColumn.TOMBSTONES]:
            action = SpanAction.COPY
        planned = _put_span(spans, planned, start, end, action, records, bytes_min)
        done = end
        run += 1
    return planned
