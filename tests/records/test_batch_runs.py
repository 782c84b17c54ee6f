"""Runs of batches: what is remembered of them decides as every single look at a record would."""

import itertools
import random

import pytest

from headrace.records.compaction.layout import ENTRY_BYTES, MapCounter, RunColumn, SpanAction
from headrace.records.compaction.offset_map import RUN_BYTES, BatchRuns, SegmentPart
from headrace.records.kernels.compaction_runs import note_run
from tests.records.kernel_forms import FORMS, use


def numbers(count):
    return memoryview(bytearray(8 * count)).cast("q")


class Batches:
    """Batches of some segments, of which the table knows some keys' last offsets."""

    def __init__(self, seed):
        self.rng = rng = random.Random(seed)
        self.counters = numbers(len(MapCounter))
        self.runs = BatchRuns(RUN_BYTES * rng.choice([2, 5, 300]), self.counters)
        self.runs.begin()
        self.batches = []  # segment, position, size, first, end, records, tombstones
        self.sizes = {}
        offset = 10
        for _ in range(rng.randint(1, 4)):
            base, position = offset, 0
            for _ in range(rng.randint(1, 40)):
                records, size = rng.randint(1, 3), rng.randint(1, 9)
                end = offset + records + rng.choice([0, 0, 2])
                noted = rng.random() < 0.9
                if noted:
                    markers = rng.choice([0, 0, 0, 1])
                    self.batches.append((base, position, size, offset, end, records, markers))
                position += size
                offset = end
            self.sizes[base] = position
        lives = rng.choice([0.0, 0.3, 0.97])
        self.live = {
            first + index
            for _, _, _, first, _, records, _ in self.batches
            for index in range(records)
            if rng.random() < lives
        }

    def note(self):
        origin, segment = 0, None
        for base, position, size, first, end, records, markers in self.batches:
            if base != segment:
                segment, origin = base, self.runs.open(base, self.sizes[base])
            note_run(origin + position, size, first, end, records, markers, self.runs.rows, self.counters)

    def table(self):
        slots = 2 * len(self.live) + 1
        table = bytearray(slots * ENTRY_BYTES)
        for slot, offset in enumerate(sorted(self.live)):
            at = slot * 2 * ENTRY_BYTES
            table[at : at + 24] = b"\1" * 16 + (offset + 1).to_bytes(8, "little")
        return memoryview(table).cast("Q"), slots


@pytest.mark.parametrize("seed", range(60))
def test_what_goes_has_nothing_that_lives_and_what_stays_nothing_that_does_not(seed, monkeypatch):
    made = Batches(seed)
    made.note()
    count = made.counters[MapCounter.RUNS]
    kept_offsets = numbers(1)
    kept_offsets[0] = made.rng.choice(made.batches)[4] - 1 if made.batches else 0
    rows = bytes(made.runs.rows)
    answers = []
    for form in FORMS:
        use(monkeypatch, form)
        made.runs.rows[:] = memoryview(rows).cast("q")
        made.runs.count_live(*made.table())
        plans = {
            (base, keeps_last, bytes_min): made.runs.parts(
                base,
                size,
                keeps_last=keeps_last,
                bytes_min=bytes_min,
                kept_offsets=kept_offsets,
            )
            for base, size in made.sizes.items()
            for keeps_last in (False, True)
            for bytes_min in (0, 12)
        }
        answers.append((bytes(made.runs.rows), plans))
    assert answers[0] == answers[1] == answers[2]
    noted = sum(made.runs.rows[run * len(RunColumn) + RunColumn.LIVE] for run in range(count))
    assert noted <= len(made.live)
    assert made.counters[MapCounter.RUN_BYTES] < 0 or noted == len(made.live)
    for (base, keeps_last, _), parts in answers[0][1].items():
        assert parts[0].start == 0
        assert parts[-1].end == made.sizes[base]
        assert all(a.end == b.start for a, b in itertools.pairwise(parts))
        for part in parts:
            check_part(made, base, part, keeps_last, kept_offsets[0])


def check_part(made, base, part, keeps_last, kept_offset):
    inside = [batch for batch in made.batches if batch[0] == base and part.start <= batch[1] < part.end]
    offsets = {first + index for _, _, _, first, _, records, _ in inside for index in range(records)}
    if part.action == SpanAction.SKIP:
        assert not offsets & made.live
        assert not any(first <= kept_offset < end for _, _, _, first, end, _, _ in inside)
        assert not (keeps_last and part.end == made.sizes[base])
        assert part.records == len(offsets)
    elif part.action == SpanAction.COPY:
        assert offsets <= made.live
        assert not any(markers for *_, markers in inside)
    if part.action != SpanAction.CLEAN:  # nothing that was not noted lies in between
        assert sum(batch[2] for batch in inside) == part.end - part.start


def test_runs_are_joined_when_the_book_is_full():
    counters = numbers(len(MapCounter))
    runs = BatchRuns(8 * RUN_BYTES, counters)
    runs.begin()
    origin = runs.open(0, 1000)
    for number in range(100):
        note_run(origin + 10 * number, 10, number, number + 1, 1, 0, runs.rows, counters)
    assert 4 <= counters[MapCounter.RUNS] <= 8
    assert (
        sum(runs.rows[run * len(RunColumn) + RunColumn.RECORDS] for run in range(counters[MapCounter.RUNS]))
        == 100
    )
    assert runs.rows[(counters[MapCounter.RUNS] - 1) * len(RunColumn) + RunColumn.END_POSITION] == 1000


def test_a_book_that_cannot_be_joined_takes_no_more():
    counters = numbers(len(MapCounter))
    runs = BatchRuns(4 * RUN_BYTES, counters)
    runs.begin()
    for number in range(6):
        origin = runs.open(number, 10)
        note_run(origin, 10, number, number + 1, 1, 0, runs.rows, counters)
    assert (counters[MapCounter.RUNS], counters[MapCounter.RUN_BYTES]) == (4, -1)


def test_a_segment_that_is_not_as_it_was_is_looked_at_as_a_whole():
    counters = numbers(len(MapCounter))
    runs = BatchRuns(4 * RUN_BYTES, counters)
    runs.begin()
    note_run(runs.open(5, 10), 10, 5, 6, 1, 0, runs.rows, counters)
    for base, size in ((5, 20), (6, 10)):
        parts = runs.parts(base, size, keeps_last=False, bytes_min=0, kept_offsets=numbers(0))
        assert parts == [SegmentPart(0, size, SpanAction.CLEAN, 0)]
