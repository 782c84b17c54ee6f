"""Cutting bytes into frames, whatever the pieces they come in; and the memory that takes."""

import asyncio
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.base.errors import InvalidBytesError
from headrace.testing.loop import SimulatedLoop
from headrace.transport.frame_reader import STASH_BYTES_MAX, FrameReader
from headrace.transport.limits import ReceiveLimits
from headrace.transport.receive_memory import CHECK_SECONDS, ReceiveMemory
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


@given(bodies, st.lists(st.integers(1, 50_000), min_size=1, max_size=6), st.integers(1, 3))
def test_frames_are_the_same_however_they_are_cut(sizes, pieces, reads_per_turn):
    memory = ReceiveMemory(Loop(), SMALL)
    reader = FrameReader(memory, 10**6)
    expected = [bytes([number % 256]) * size for number, size in enumerate(sizes)]
    socket = Pieces(b"".join(map(frame, expected)), pieces)
    assert read_all(reader, socket, reads_per_turn) == expected
    assert reader.settle() == 0
    assert memory.spare_bytes <= SMALL.spare_bytes_max


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


def test_who_asks_for_too_much_waits_until_others_are_done():
    memory = ReceiveMemory(SimulatedLoop(), ReceiveLimits(unfinished_bytes_max=1_000))
    one, two, three = (Holder(memory, name) for name in "abc")
    assert memory.hold(one, 600)
    assert memory.hold(two, 400)
    assert not memory.hold(three, 100)
    assert not three.resumed
    memory.release(two)
    assert three.resumed == 1
    assert memory.held_bytes == 700
    assert memory.hold(three, 300)


def test_far_too_much_is_refused():
    memory = ReceiveMemory(SimulatedLoop(), ReceiveLimits(unfinished_bytes_max=1_000))
    holder = Holder(memory, "greedy")
    assert not memory.hold(holder, 1_300)
    assert holder.aborted
    assert memory.held_bytes == 0


def test_a_stalled_frame_loses_its_connection_only_while_others_wait():
    loop = SimulatedLoop()
    memory = ReceiveMemory(loop, ReceiveLimits(unfinished_bytes_max=1_000, stalled_ms_max=10_000))
    stalled, moving, waiting = (Holder(memory, name) for name in ["stalled", "moving", "waiting"])

    async def main():
        assert memory.hold(stalled, 500)
        await asyncio.sleep(100)
        assert not stalled.aborted
        memory.hold(moving, 500)
        assert not memory.hold(waiting, 100)
        for _ in range(3):
            await asyncio.sleep(1)
            memory.hold(moving, 400)
        await asyncio.sleep(CHECK_SECONDS)
        assert stalled.aborted
        assert waiting.resumed == 1
        assert not moving.aborted
        assert not waiting.aborted

    loop.run_until_complete(main())
    loop.close()
