"""Walking over batches, as it is written and compiled: the same answers, whatever the bytes."""

import random
from array import array
from functools import partial

import pytest

from headrace.base.errors import InvalidBytesError
from headrace.records.batch import Record, build_batch
from headrace.records.header import stamp
from headrace.records.kernels.batches import BatchFlaw, BatchWalk, walk_batches
from tests.records.kernel_forms import FORMS


def walk_with(form, data):
    starts, ends = (memoryview(bytearray(8 * (len(data) // 61 + 1))).cast("q") for _ in range(2))
    flaw, count, end = form.fill_walk(data, starts, ends)
    return flaw, BatchWalk(array("q", starts[:count]), array("q", ends[:count]), end)


WALKS = tuple(partial(walk_with, form) for form in FORMS)


def run_of(*counts: int, gap: int = 0) -> bytes:
    """Batches of so many records, whose offsets follow each other with gaps."""
    data, offset = bytearray(), 5
    for count in counts:
        batch = bytearray(build_batch([Record(0, 1_000, b"k", b"v" * count) for _ in range(count)]))
        stamp(batch, 0, base_offset=offset, leader_epoch=3)
        data += batch
        offset += count + gap
    return bytes(data)


@pytest.mark.parametrize("walk", WALKS)
def test_places_and_offsets(walk) -> None:
    data = run_of(1, 4, 2, gap=10)
    flaw, found = walk(data)
    assert flaw == BatchFlaw.NONE
    assert list(found.ends) == [6, 20, 32]
    assert found.starts[0] == 0
    assert found.end == len(data)
    assert walk(b"") == (BatchFlaw.NONE, (found.starts[:0], found.ends[:0], 0))


@pytest.mark.parametrize("walk", WALKS)
def test_a_batch_that_is_cut_off_is_left_out(walk) -> None:
    data = run_of(3, 3)
    for size in (len(data) - 1, len(data) // 2 + 61, len(data) // 2 + 1):
        flaw, found = walk(data[:size])
        assert (flaw, list(found.ends), found.end) == (BatchFlaw.NONE, [8], len(data) // 2)


def test_what_is_wrong_is_told() -> None:
    data = bytearray(run_of(3, 3))
    middle = len(data) // 2
    for at, text in ((middle + 16, "no batch"), (middle + 7, "does not follow"), (middle + 70, "CRC")):
        broken = bytearray(data)
        broken[at] ^= 9 if at != middle + 7 else broken[at]
        with pytest.raises(InvalidBytesError, match=f"{middle}"):
            walk_batches(bytes(broken))
        for walk in WALKS:
            flaw, found = walk(bytes(broken))
            assert text.split()[-1] in {1: "batch", 2: "follow", 3: "CRC"}[flaw]
            assert (len(found.ends), found.end) == (1, middle)


def test_both_say_the_same_of_any_bytes() -> None:
    rng = random.Random(7)
    for _ in range(300):
        data = bytearray(
            run_of(*(rng.randrange(1, 5) for _ in range(rng.randrange(1, 6))), gap=rng.randrange(2))
        )
        for _ in range(rng.randrange(3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        cut = bytes(data[: rng.randrange(len(data) + 1)])
        first, *others = (walk(cut) for walk in WALKS)
        assert all(other == first for other in others)
