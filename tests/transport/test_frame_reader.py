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
from headrace.transport.receive_memory import MOVED_BYTES, STASH_BYTES_MAX, ReceiveMemory
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
    def __init__(self, memory, name, address="10.0.0.1"):
        self.memory, self.name = memory, name
        self.peer = (address, 1)
        self.resumed, self.aborted = 0, None
        self.awaits_peer = True

    def hold(self, size, **frame):
        """As a connection does it, which pauses where it may not go on."""
        self.awaits_peer = self.memory.hold(self, size, **({"received": size} | frame))
        return self.awaits_peer

    def resume_for_memory(self):
        self.awaits_peer = True
        self.resumed += 1

    def abort(self, reason):
        self.aborted = reason
        self.memory.release(self)


def test_all_but_one_wait_when_too_much_is_held():
    memory = ReceiveMemory(SimulatedLoop(), ReceiveLimits(unfinished_bytes_max=1_000))
    one, two, three = (Holder(memory, name) for name in "abc")
    assert one.hold(600)
    assert two.hold(500), "the first that is too much is favoured: it may go on"
    assert not three.hold(100)
    assert not memory.may_read(one)
    assert memory.may_read(two)
    assert memory.may_read(Holder(memory, "new")), "a whole frame in one read is never held up"
    assert two.hold(700)
    memory.release(two)
    assert (three.resumed, one.resumed) == (1, 0), "there is room for the first in line"
    memory.release(three)
    assert one.resumed == 1


def test_one_goes_on_even_if_there_is_still_no_room():
    memory = ReceiveMemory(SimulatedLoop(), ReceiveLimits(unfinished_bytes_max=1_000))
    one, two, three, full = (Holder(memory, name) for name in "abcd")
    assert full.hold(950)
    assert one.hold(100)
    assert not two.hold(60)
    assert not three.hold(50)
    memory.release(one)
    assert (two.resumed, three.resumed) == (1, 0)
    memory.release(two)
    assert three.resumed == 1


def test_far_too_much_is_refused():
    memory = ReceiveMemory(SimulatedLoop(), ReceiveLimits(unfinished_bytes_max=1_000))
    favoured, greedy = Holder(memory, "favoured"), Holder(memory, "greedy")
    assert favoured.hold(5_000)
    assert not greedy.hold(1_300)
    assert greedy.aborted
    assert not favoured.aborted
    assert memory.held_bytes == 5_000


def test_a_frame_that_does_not_move_gives_way_only_where_memory_is_short(caplog):
    loop = SimulatedLoop()
    memory = ReceiveMemory(loop, ReceiveLimits(unfinished_bytes_max=1_000))
    stalled, paused, moving, other = (
        Holder(memory, name) for name in ["stalled", "paused", "moving", "other"]
    )

    async def main():
        assert stalled.hold(600)
        assert paused.hold(200)
        paused.awaits_peer = False  # it is our turn to move, however long that takes
        await asyncio.sleep(100)
        assert not stalled.aborted
        assert moving.hold(500), "there is room for who moves, at once"
        assert "did not move" in stalled.aborted
        assert other.hold(100)
        assert not paused.aborted
        assert not moving.aborted

    loop.run_until_complete(main())
    loop.close()
    assert "queued.max.request.bytes" in caplog.text


def test_a_byte_now_and_then_is_no_progress():
    loop = SimulatedLoop()
    memory = ReceiveMemory(loop, ReceiveLimits(unfinished_bytes_max=100_000))
    trickling, steady, other = (Holder(memory, name) for name in ["trickling", "steady", "other"])

    async def main():
        for step in range(20):
            assert trickling.hold(40_000, received=30_000 + step)
            assert steady.hold(40_000, received=10_000 + step * MOVED_BYTES)
            await asyncio.sleep(0.2)
        assert other.hold(30_000)
        assert trickling.aborted
        assert not steady.aborted

    loop.run_until_complete(main())
    loop.close()


def test_who_trickles_into_short_memory_gives_way_itself_and_is_forgotten():
    loop = SimulatedLoop()
    memory = ReceiveMemory(loop, ReceiveLimits(unfinished_bytes_max=1_000))
    trickling, other, last = (Holder(memory, name) for name in ["trickling", "other", "last"])

    async def main():
        assert trickling.hold(900)
        await asyncio.sleep(2)
        assert not trickling.hold(1_100, received=901)
        assert trickling.aborted
        assert memory.held_bytes == 0
        assert other.hold(1_100)
        assert not last.hold(100)
        memory.release(other)
        assert last.resumed == 1

    loop.run_until_complete(main())
    loop.close()


def test_short_frames_have_a_reserve_that_long_ones_cannot_take():
    memory = ReceiveMemory(SimulatedLoop(), ReceiveLimits(unfinished_bytes_max=1_000))
    long = [Holder(memory, f"long {number}") for number in range(20)]
    for each in long:
        each.hold(100, frame_bytes=90_000_000)
    assert sum(each.aborted is None for each in long) == 13, "with the favoured one and what others brought"
    short = [Holder(memory, f"short {number}") for number in range(4)]
    assert [each.hold(100, frame_bytes=500_000) for each in short] == [True, True, True, False]
    assert not any(each.aborted for each in short)
    assert not memory.may_read(long[1])
    memory.release(short[0])
    assert memory.may_read(short[3])


def test_an_address_that_holds_little_does_not_wait_for_one_that_holds_much():
    memory = ReceiveMemory(SimulatedLoop(), ReceiveLimits(unfinished_bytes_max=1_000))
    for number in range(20):
        Holder(memory, f"long {number}").hold(100, frame_bytes=90_000_000)
    assert not Holder(memory, "one more").hold(10, frame_bytes=90_000_000)
    elsewhere = Holder(memory, "elsewhere", "10.0.0.2")
    assert elsewhere.hold(100, frame_bytes=90_000_000)
    assert not elsewhere.hold(200, frame_bytes=90_000_000), "more than the share of two"


@pytest.mark.parametrize(("step_bytes", "steps"), [(MOVED_BYTES, 18), (1, 2)])
def test_a_favoured_frame_that_takes_long_loses_its_connection_while_others_wait(step_bytes, steps):
    loop = SimulatedLoop()
    memory = ReceiveMemory(loop, ReceiveLimits(unfinished_bytes_max=1_000, stalled_ms_max=10_000))
    slow, waiting = Holder(memory, "slow"), Holder(memory, "waiting")

    async def main():
        assert slow.hold(1_100)
        assert not waiting.hold(100)
        for step in range(1, steps + 1):
            assert slow.hold(1_100, received=1_100 + step * step_bytes)
            assert not slow.aborted
            await asyncio.sleep(0.5)
        await asyncio.sleep(3)
        assert "too long" in slow.aborted
        assert waiting.resumed == 1
        await asyncio.sleep(60)
        assert not waiting.aborted

    loop.run_until_complete(main())
    loop.close()


def test_when_memory_is_tight_only_what_came_is_held():
    memory = ReceiveMemory(
        SimulatedLoop(), ReceiveLimits(buffer_bytes=16 * 1024, unfinished_bytes_max=50_000)
    )
    Holder(memory, "other").hold(30_000)
    reader = FrameReader(memory, 10**6)
    reader.fill(Pieces(frame(bytes(20_000))[:7_000], [10**6]))
    assert reader.settle() == 7_000
    reader.fill(Pieces(bytes(13_004), [10**6]))
    reader.fill(Pieces(bytes(13_004 - 9_384), [10**6]))
    assert reader.next_frame() == bytes(20_000)
