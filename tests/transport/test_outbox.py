"""Sending chunks in order, with few calls, over a socket that takes as much as it likes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.base.chunks import FileSlice, chunks_size
from headrace.transport.outbox import FileEndedError, Outbox


class MemoryFile:
    def __init__(self, data):
        self.data = data
        self.faults = []

    def on_fault(self, error):
        self.faults.append(error)

    def read(self, position, count):
        return self.data[position : position + count]


class Taker:
    """A socket that takes at most so many bytes per call, then says that it would block."""

    def __init__(self, takes):
        self.takes, self.turn = takes, 0
        self.got = bytearray()
        self.calls = 0

    def _take(self, data):
        limit = self.takes[self.turn % len(self.takes)]
        self.turn += 1
        self.calls += 1
        if not limit:
            raise BlockingIOError
        self.got += data[:limit]
        return min(limit, len(data))

    def send(self, buffers):
        return self._take(b"".join(buffers))

    def send_file(self, part):
        return self._take(part.file.read(part.position, part.size))


FILE = MemoryFile(bytes(range(256)) * 1_000)
chunk = st.one_of(
    st.binary(max_size=50),
    st.integers(0, 3_000).map(lambda size: memoryview(b"m" * size)),
    st.tuples(st.integers(0, 50_000), st.integers(0, 60_000)).map(lambda slice_: FileSlice(FILE, *slice_)),
)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.lists(chunk, max_size=6), max_size=6),
    st.lists(st.sampled_from([0, 1, 7, 100, 20_000, 10**6]), min_size=1, max_size=6).filter(any),
    st.sampled_from([1, 1_000, 10**6]),
)
def test_all_bytes_leave_in_order(replies, takes, bytes_max):
    outbox, socket = Outbox(), Taker(takes)
    expected = b""
    for chunks in replies:
        outbox.push(chunks, chunks_size(chunks))
        expected += b"".join(part.read() if isinstance(part, FileSlice) else bytes(part) for part in chunks)
        before = outbox.size
        taken = outbox.flush(socket, bytes_max)
        assert before - taken == outbox.size
        assert taken <= bytes_max
    # A byte comes with each round of what the socket takes, at least.
    for _ in range(len(takes) * len(expected) + 10):
        if not outbox.size:
            break
        outbox.flush(socket, bytes_max)
    assert bytes(socket.got) == expected


def test_small_replies_leave_in_one_call():
    outbox, socket = Outbox(), Taker([10**6])
    for _ in range(20):
        outbox.push([b"header", FileSlice(FILE, 0, 100)], 106)
    outbox.flush(socket, 10**6)
    assert socket.calls == 1
    assert len(socket.got) == 20 * 106


def test_a_full_socket_is_not_asked_twice():
    outbox, socket = Outbox(), Taker([10, 10**6])
    outbox.push([b"x" * 100], 100)
    assert outbox.flush(socket, 10**6) == 10
    assert socket.calls == 1
    assert outbox.size == 90


def test_a_turn_is_bounded():
    outbox, socket = Outbox(), Taker([10**9])
    outbox.push([FileSlice(FILE, 0, 200_000)] * 3, 600_000)
    assert outbox.flush(socket, 50_000) == 50_000


@pytest.mark.parametrize("size", [100, 100_000])
def test_a_file_that_ended_is_told(size):
    outbox, socket = Outbox(), Taker([10**9])
    outbox.push([FileSlice(FILE, 256_000, size)], size)
    FILE.faults.clear()
    with pytest.raises(FileEndedError):
        outbox.flush(socket, 10**6)
    assert len(FILE.faults) == 1, "and so is its owner"
