"""Large memory: the same bytes, whichever kind it is and however it grows."""

import mmap

import pytest

from headrace.base.large_memory import LARGE_BYTES, grow_room, take_room


@pytest.mark.parametrize("size", [10, LARGE_BYTES, LARGE_BYTES + 1])
def test_it_is_empty_and_grows(size: int) -> None:
    room = take_room(size)
    assert (len(room), isinstance(room, mmap.mmap)) == (size, size > LARGE_BYTES)
    assert not any(memoryview(room)[:10])
    room[size - 3 : size] = b"end"
    larger = grow_room(room, 3 * LARGE_BYTES)
    assert (len(larger), bytes(larger[size - 3 : size + 2])) == (3 * LARGE_BYTES, b"end\0\0")


def test_it_grows_while_somebody_looks_at_it() -> None:
    room = take_room(LARGE_BYTES + 1)
    room[:3] = b"abc"
    view = memoryview(room)
    larger = grow_room(room, 2 * LARGE_BYTES)
    larger[:3] = b"xyz"
    assert bytes(view[:3]) == b"abc"
    assert len(larger) == 2 * LARGE_BYTES
