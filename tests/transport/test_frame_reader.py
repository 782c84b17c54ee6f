"""Cutting bytes into frames, whatever the pieces they come in; and the memory that takes."""

import asyncio
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.base.errors import InvalidBytesError
from headrace.testing.loop import SimulatedLoop
from headrace.transport.frame_reader import FrameReader
from headrace.transport.limits import ReceiveLimits
from headrace.transport.receive_memory import CHECK_SECONDS, STASH_BYTES_MAX, ReceiveMemory
from tests.transport.harness import frame

SMALL = ReceiveLimits(buffer_bytes=16 * 1024, buffer_bytes_expected_max=64 * 1024, spare_bytes_max=128 * 1024)


class Pieces:
    """A socket that gives what it has in pieces of given sizes."""

    def __init__(self, data, sizes):
        self.data, self.sizes, self.turn = memoryview(data), sizes, 0

    def recv_into(self, buffer):
        size = min(len(buffer), self.sizes[self.turn % len(self.sizes)], len(self.data))
        self.turn += 1
        buffer[:size] = self.data[:size]
        self.data = self.data[size:]
        return size


class Loop:
    """As much of a loop as counting needs."""

    def time(self):
        return 0.0


def read_all(reader, socket, reads_per_turn=1):
    frames = []
    while socket.data:
        for _ in range(reads_per_turn):
            if socket.data:
                reader.fill(socket)
                while (found := reader.next_frame()) is not None:
                    frames.append(bytes(found))
        reader.settle()
    return frames


bodies = st.lists(
    st.one_of(st.integers(1, 40), st.integers(3_000, 6_000), st.integers(10_000, 150_000)),
    min_size=1,
    max_size=8,
)


pieces = st.lists(st.integers(1, 50_000), min_size=1, max_size=6).filter(
    lambda sizes: sum(sizes) > 500 * len(sizes)
)


@settings(deadline=None, max_examples=60)
@given(bodies, pieces, st.integers(1, 3))
def test_frames_are_the_same_however_they_are_cut(sizes, pieces, reads_per_turn):
    memory = ReceiveMemory(Loop(), SMALL)
    reader = FrameReader(memory, 10**6)
    expected = [bytes([number % 256]) * size for number, size in enumerate(sizes)]
    socket = Pieces(b"".join(map(frame, expected)), pieces)
    assert read_all(reader, socket, reads_per_turn) == expected
    assert reader.settle() == 0
    assert memory.spare_bytes <= SMALL.spare_bytes_max


def test_whole_frames_that_fill_the_buffer_leave_room_for_more():
    body = b"x" * (SMALL.buffer_bytes // 4 - 4)
    reader = FrameReader(ReceiveMemory(Loop(), SMALL), 1 << 20)
    socket = Pieces(frame(body) * 7, [1 << 20])
    reader.fill(socket)
    for _ in range(2):  # once with nothing taken, once with a frame taken: the others stay where they are
        count, _ = reader.fill(socket)
        assert count > 0
        assert reader.next_frame() == body
    while socket.data:
        reader.fill(socket)
    assert [bytes(each) for each in iter(reader.next_frame, None)] == [body] * 5


def test_a_small_rest_is_copied_out_and_a_large_one_keeps_its_buffer():
    memory = ReceiveMemory(Loop(), SMALL)
    reader = FrameReader(memory, 10**6)
    reader.fill(Pieces(frame(bytes(50_000))[:100], [100]))
    assert reader.next_frame() is None
    assert reader.settle() == 100
    assert memory.spare_bytes == SMALL.buffer_bytes
    reader.fill(Pieces(bytes(STASH_BYTES_MAX), [STASH_BYTES_MAX]))
    assert reader.settle() == SMALL.buffer_bytes
    assert memory.spare_bytes == 0
    reader.discard()
    assert memory.spare_bytes == SMALL.buffer_bytes


def test_memory_follows_the_bytes_that_came_and_not_the_claim():
    memory = ReceiveMemory(Loop(), SMALL)
    reader = FrameReader(memory, 2**31 - 1)
    socket = Pieces(struct.pack(">i", 2**31 - 1) + bytes(100_000), [7_000])
    received = 0
    while socket.data:
        received += reader.fill(socket)[0]
        assert reader.next_frame() is None
        assert reader.settle() <= max(2 * received, SMALL.buffer_bytes)


def test_large_frames_are_expected_after_the_first_and_forgotten_again():
    memory = ReceiveMemory(Loop(), SMALL)
    reader = FrameReader(memory, 10**6)
    read_all(reader, Pieces(frame(bytes(60_000)), [10**6]))
    reader.fill(Pieces(frame(bytes(60_000))[:50_000], [10**6]))
    assert reader.settle() == 64 * 1024, "room for a frame of the size seen before, at once"
    read_all(reader, Pieces(bytes(10_004), [10**6]))
    for _ in range(20):
        read_all(reader, Pieces(frame(b"small"), [10**6]))
    reader.fill(Pieces(frame(bytes(60_000))[:5_000], [10**6]))
    assert reader.settle() == SMALL.buffer_bytes


def test_a_huge_buffer_is_not_kept_by_a_stream_of_small_frames():
    memory = ReceiveMemory(Loop(), SMALL)
    reader = FrameReader(memory, 10**7)
    small = frame(bytes(5_000))
    data = frame(bytes(1_000_000)) + small * 100
    # Every read ends within a frame, so the buffer never becomes empty.
    socket = Pieces(data, [4_999])
    held = 0
    while len(socket.data) > 3_000:
        reader.fill(socket)
        while reader.next_frame() is not None:
            pass
        held = reader.settle()
    assert held <= 4 * SMALL.buffer_bytes_expected_max


@pytest.mark.parametrize("length", [0, -1, 1_000_001])
def test_impossible_lengths_are_refused(length):
    reader = FrameReader(ReceiveMemory(Loop(), SMALL), 1_000_000)
    reader.fill(Pieces(struct.pack(">i", length), [100]))
    with pytest.raises(InvalidBytesError, match=str(length)):
        reader.next_frame()


class Holder:
    def __init__(self, memory, name):
        self.memory, self.name = memory, name
        self.resumed, self.aborted = 0, None

    def resume_for_memory(self):
        self.resumed += 1

    def abort(self, reason):
        self.aborted = reason
        self.memory.release(self)


def test_all_but_one_wait_when_too_much_is_held():
    memory = ReceiveMemory(SimulatedLoop(), ReceiveLimits(unfinished_bytes_max=1_000))
    one, two, three = (Holder(memory, name) for name in "abc")
    assert memory.hold(one, 600)
    assert memory.hold(two, 500), "the first that is too much is favoured: it may go on"
    assert not memory.hold(three, 100)
    assert not memory.may_read(one)
    assert memory.may_read(two)
    assert memory.may_read(Holder(memory, "new")), "a whole frame in one read is never held up"
    assert memory.hold(two, 700)
    memory.release(two)
    assert (three.resumed, one.resumed) == (1, 0), "there is room for the first in line"
    memory.release(three)
    assert one.resumed == 1


def test_one_goes_on_even_if_there_is_still_no_room():
    memory = ReceiveMemory(SimulatedLoop(), ReceiveLimits(unfinished_bytes_max=1_000))
    one, two, three, full = (Holder(memory, name) for name in "abcd")
    assert memory.hold(full, 950)
    assert memory.hold(one, 100)
    assert not memory.hold(two, 60)
    assert not memory.hold(three, 50)
    memory.release(one)
    assert (two.resumed, three.resumed) == (1, 0)
    memory.release(two)
    assert three.resumed == 1


def test_far_too_much_is_refused():
    memory = ReceiveMemory(SimulatedLoop(), ReceiveLimits(unfinished_bytes_max=1_000))
    favoured, greedy = Holder(memory, "favoured"), Holder(memory, "greedy")
    assert memory.hold(favoured, 5_000)
    assert not memory.hold(greedy, 1_300)
    assert greedy.aborted
    assert not favoured.aborted
    assert memory.held_bytes == 5_000


def test_a_stalled_frame_loses_its_connection_only_while_others_wait():
    loop = SimulatedLoop()
    memory = ReceiveMemory(loop, ReceiveLimits(unfinished_bytes_max=1_000, stalled_ms_max=10_000))
    stalled, moving, waiting = (Holder(memory, name) for name in ["stalled", "moving", "waiting"])

    async def main():
        assert memory.hold(stalled, 600)
        await asyncio.sleep(100)
        assert not stalled.aborted
        assert memory.hold(moving, 500)
        assert not memory.hold(waiting, 100)
        await asyncio.sleep(CHECK_SECONDS * 1.5)
        assert "stalled" in stalled.aborted
        assert waiting.resumed == 1
        assert not moving.aborted

    loop.run_until_complete(main())
    loop.close()


def test_a_favoured_frame_that_trickles_loses_its_connection_while_others_wait():
    loop = SimulatedLoop()
    memory = ReceiveMemory(loop, ReceiveLimits(unfinished_bytes_max=1_000, stalled_ms_max=10_000))
    trickling, waiting = Holder(memory, "trickling"), Holder(memory, "waiting")

    async def main():
        assert memory.hold(trickling, 1_100)
        assert not memory.hold(waiting, 100)
        for step in range(9):
            await asyncio.sleep(1)
            assert memory.hold(trickling, 1_100 + step)
        assert not trickling.aborted
        await asyncio.sleep(3)
        assert "too long" in trickling.aborted
        assert waiting.resumed == 1
        await asyncio.sleep(60)
        assert not waiting.aborted

    loop.run_until_complete(main())
    loop.close()


def test_when_memory_is_tight_only_what_came_is_held():
    memory = ReceiveMemory(
        SimulatedLoop(), ReceiveLimits(buffer_bytes=16 * 1024, unfinished_bytes_max=50_000)
    )
    memory.hold(Holder(memory, "other"), 30_000)
    reader = FrameReader(memory, 10**6)
    reader.fill(Pieces(frame(bytes(20_000))[:7_000], [10**6]))
    assert reader.settle() == 7_000
    reader.fill(Pieces(bytes(13_004), [10**6]))
    reader.fill(Pieces(bytes(13_004 - 9_384), [10**6]))
    assert reader.next_frame() == bytes(20_000)
