"""Runs of batches: what is remembered of them decides as every single look at a record would."""

import itertools
import random

import pytest

from headrace.records import kernels_cleaning_plain, kernels_cleaning_runs_plain
from headrace.records.cleaning_layout import ENTRY_BYTES, Fate, Run, Tally
from headrace.records.cleaning_runs import RUN_BYTES, Part, RunBook


def twins():
    from headrace.records import kernels_cleaning_compiled

    return kernels_cleaning_plain, kernels_cleaning_compiled


def numbers(count):
    return memoryview(bytearray(8 * count)).cast("q")


class Batches:
    """Batches of some segments, of which the table knows some keys' last offsets."""

    def __init__(self, seed):
        self.rng = rng = random.Random(seed)
        self.tally = numbers(len(Tally))
        self.book = RunBook(RUN_BYTES * rng.choice([2, 5, 300]), self.tally)
        self.book.begin()
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
                segment, origin = base, self.book.open(base, self.sizes[base])
            kernels_cleaning_runs_plain.note_run(
                origin + position, size, first, end, records, markers, self.book.rows, self.tally
            )

    def table(self):
        slots = 2 * len(self.live) + 1
        table = bytearray(slots * ENTRY_BYTES)
        for slot, offset in enumerate(sorted(self.live)):
            at = slot * 2 * ENTRY_BYTES
            table[at : at + 24] = b"\1" * 16 + (offset + 1).to_bytes(8, "little")
        return table, slots


@pytest.mark.parametrize("seed", range(60))
def test_what_goes_has_nothing_that_lives_and_what_stays_nothing_that_does_not(seed):
    made = Batches(seed)
    made.note()
    count = made.tally[Tally.RUNS]
    kept_offsets = numbers(1)
    kept_offsets[0] = made.rng.choice(made.batches)[4] - 1 if made.batches else 0
    rows = bytes(made.book.rows)
    answers = []
    for kernels in twins():
        made.book.rows[:] = memoryview(rows).cast("q")
        made.book.count_live(kernels, *made.table())
        plans = {
            (base, keeps_last, bytes_min): made.book.parts(
                kernels,
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
        answers.append((bytes(made.book.rows), plans))
    assert answers[0] == answers[1]
    noted = sum(made.book.rows[run * len(Run) + Run.LIVE] for run in range(count))
    assert noted <= len(made.live)
    assert made.tally[Tally.RUN_BYTES] < 0 or noted == len(made.live)
    for (base, keeps_last, _), parts in answers[0][1].items():
        assert parts[0].start == 0
        assert parts[-1].end == made.sizes[base]
        assert all(a.end == b.start for a, b in itertools.pairwise(parts))
        for part in parts:
            check_part(made, base, part, keeps_last, kept_offsets[0])


def check_part(made, base, part, keeps_last, kept_offset):
    inside = [batch for batch in made.batches if batch[0] == base and part.start <= batch[1] < part.end]
    offsets = {first + index for _, _, _, first, _, records, _ in inside for index in range(records)}
    if part.fate == Fate.SKIP:
        assert not offsets & made.live
        assert not any(first <= kept_offset < end for _, _, _, first, end, _, _ in inside)
        assert not (keeps_last and part.end == made.sizes[base])
        assert part.records == len(offsets)
    elif part.fate == Fate.COPY:
        assert offsets <= made.live
        assert not any(markers for *_, markers in inside)
    if part.fate != Fate.CLEAN:  # nothing that was not noted lies in between
        assert sum(batch[2] for batch in inside) == part.end - part.start


def test_runs_are_joined_when_the_book_is_full():
    tally = numbers(len(Tally))
    book = RunBook(8 * RUN_BYTES, tally)
    book.begin()
    origin = book.open(0, 1000)
    for number in range(100):
        kernels_cleaning_runs_plain.note_run(
            origin + 10 * number, 10, number, number + 1, 1, 0, book.rows, tally
        )
    assert 4 <= tally[Tally.RUNS] <= 8
    assert sum(book.rows[run * len(Run) + Run.RECORDS] for run in range(tally[Tally.RUNS])) == 100
    assert book.rows[(tally[Tally.RUNS] - 1) * len(Run) + Run.END_POSITION] == 1000


def test_a_book_that_cannot_be_joined_takes_no_more():
    tally = numbers(len(Tally))
    book = RunBook(4 * RUN_BYTES, tally)
    book.begin()
    for number in range(6):
        origin = book.open(number, 10)
        kernels_cleaning_runs_plain.note_run(origin, 10, number, number + 1, 1, 0, book.rows, tally)
    assert (tally[Tally.RUNS], tally[Tally.RUN_BYTES]) == (4, -1)


def test_a_segment_that_is_not_as_it_was_is_looked_at_as_a_whole():
    tally = numbers(len(Tally))
    book = RunBook(4 * RUN_BYTES, tally)
    book.begin()
    kernels_cleaning_runs_plain.note_run(book.open(5, 10), 10, 5, 6, 1, 0, book.rows, tally)
    for base, size in ((5, 20), (6, 10)):
        parts = book.parts(
            kernels_cleaning_plain, base, size, keeps_last=False, bytes_min=0, kept_offsets=numbers(0)
        )
        assert parts == [Part(0, size, Fate.CLEAN, 0)]
