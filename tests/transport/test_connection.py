"""A connection: frames in, replies out in order, and bounds on what a peer can make us hold."""

import asyncio
import contextlib
import logging
import random
import struct

import pytest

from headrace.base.chunks import FileSlice
from headrace.transport.frame_reader import FrameReader
from headrace.transport.limits import ConnectionLimits
from tests.transport.harness import echo, frame, own_records


def test_many_frames_in_one_segment_are_answered_in_order(place):
    async def main():
        peer = await place.peer(place.listen(echo))
        bodies = [b"%d" % number * 10 for number in range(200)]
        await peer.write(b"".join(map(frame, bodies)))
        assert [await peer.read_frame() for _ in bodies] == bodies

    place.run(main())


def test_a_frame_may_come_byte_by_byte(place):
    async def main():
        peer = await place.peer(place.listen(echo))
        for byte in frame(b"slow but sure") + frame(b"again"):
            await peer.write(bytes([byte]))
            await place.turn()
        assert await peer.read_frame() == b"slow but sure"
        assert await peer.read_frame() == b"again"

    place.run(main())


def test_frames_of_all_sizes_arrive_unharmed(place):
    async def main():
        peer = await place.peer(place.listen(echo))
        rng = random.Random(5)
        for _ in range(10):
            bodies = [
                rng.randbytes(rng.choice([1, 3, 100, 5_000, 40_000])) for _ in range(rng.randrange(1, 9))
            ]
            reading = asyncio.ensure_future(asyncio.wait_for(read_all(peer, len(bodies)), 60))
            await peer.write(b"".join(map(frame, bodies)))
            assert await reading == bodies
        assert place.memory.held_bytes == 0

    place.run(main())


async def read_all(peer, count):
    return [await peer.read_frame() for _ in range(count)]


def test_replies_leave_in_the_order_of_requests(place):
    async def main():
        slots = []
        listener = place.listen(
            lambda connection, data: slots.append((connection.begin_reply(), bytes(data)))
        )
        peer = await place.peer(listener)
        await peer.write(b"".join(frame(b"%d" % number) for number in range(20)))
        await place.until(lambda: len(slots) == 20)
        order = list(range(20))
        random.Random(3).shuffle(order)
        for number in order:
            slot, body = slots[number]
            slot.send((frame(body),))
        assert await read_all(peer, 20) == [b"%d" % number for number in range(20)]

    place.run(main())


def test_a_reply_that_is_ready_waits_behind_one_that_is_not(place):
    async def main():
        held = []

        def on_frame(connection, data):
            if data[0:1] == b"w":
                held.append(connection.begin_reply())
            else:
                connection.send((frame(bytes(data)),))

        listener = place.listen(on_frame)
        peer = await place.peer(listener)
        await peer.write(frame(b"wait") + frame(b"quick"))
        (connection,) = listener.connections
        await place.until(lambda: connection.outstanding == 2)
        assert connection.unsent_bytes == len(frame(b"quick"))
        held[0].send((frame(b"waited"),))
        assert await read_all(peer, 2) == [b"waited", b"quick"]

    place.run(main())


class Holding:
    """Holds the replies to frames that begin with h, answers the others at once."""

    def __init__(self, listen):
        self.released = []
        self.listener = listen(self.on_frame)

    def on_frame(self, connection, data):
        body = bytes(data)
        if body[:1] == b"h":
            slot = connection.begin_reply()
            connection.hold(lambda: self.released.append(body) or slot.send((frame(b"let go " + body),)))
        else:
            connection.send((frame(body),))


def test_a_held_reply_gives_way_to_what_the_peer_sends_next(place):
    async def main():
        holding = Holding(place.listen)
        peer = await place.peer(holding.listener)
        await peer.write(frame(b"hold 1") + frame(b"quick"))  # in one read, or in two
        assert await read_all(peer, 2) == [b"let go hold 1", b"quick"]
        await peer.write(frame(b"hold 2"))
        (connection,) = holding.listener.connections
        await place.until(lambda: connection.outstanding == 1)
        await place.turn(20)
        assert holding.released == [b"hold 1"]
        await peer.write(frame(b"hold 3"))
        assert await peer.read_frame() == b"let go hold 2"
        await peer.write(frame(b"the end"))
        assert await read_all(peer, 2) == [b"let go hold 3", b"the end"]

    place.run(main())


def test_a_held_reply_leaves_when_its_connection_finishes(place):
    async def main():
        holding = Holding(place.listen)
        peer = await place.peer(holding.listener)
        await peer.write(frame(b"hold"))
        (connection,) = holding.listener.connections
        await place.until(lambda: connection.outstanding == 1)
        connection.finish()
        assert await peer.read_frame() == b"let go hold"
        assert await peer.is_closed()
        assert holding.released == [b"hold"]

    place.run(main())


def test_a_held_reply_is_let_go_when_its_peer_is_gone(place):
    async def main():
        holding = Holding(place.listen)
        peer = await place.peer(holding.listener)
        await peer.write(frame(b"hold"))
        (connection,) = holding.listener.connections
        await place.until(lambda: connection.outstanding == 1)
        peer.socket.close()
        await place.until(lambda: holding.released)
        assert connection.closed
        assert not connection.outstanding

    place.run(main())


def test_a_slot_may_stay_without_a_reply(place):
    async def main():
        def on_frame(connection, data):
            if data[0:1] == b"n":
                place.loop.call_soon(connection.begin_reply().send, ())
            else:
                echo(connection, data)

        peer = await place.peer(place.listen(on_frame))
        await peer.write(frame(b"no reply") + frame(b"reply"))
        assert await peer.read_frame() == b"reply"

    place.run(main())


@pytest.mark.parametrize("length", [0, -1, -(2**31), 2**31 - 1, 101, 0x47455420])
def test_a_length_that_cannot_be_closes_the_connection(place, length):
    async def main():
        listener = place.listen(echo, limits=ConnectionLimits(frame_bytes_max=100))
        peer = await place.peer(listener)
        await peer.write(frame(b"good") + struct.pack(">i", length))
        assert await peer.read_frame() == b"good"
        assert await peer.is_closed()
        assert not listener.connections
        other = await place.peer(listener)
        await other.write(frame(b"still here"))
        assert await other.read_frame() == b"still here"

    place.run(main())


def test_what_a_handler_raises_closes_its_connection_only(place, caplog):
    async def main():
        def on_frame(connection, data):
            if bytes(data) == b"bad":
                raise ValueError("what is this")
            echo(connection, data)

        listener = place.listen(on_frame)
        one, other = await place.peer(listener), await place.peer(listener)
        await one.write(frame(b"bad"))
        assert await one.is_closed()
        await other.write(frame(b"good"))
        assert await other.read_frame() == b"good"

    place.run(main())
    assert "what is this" in caplog.text


def test_a_view_that_outlives_its_handler_is_found(place, caplog):
    async def main():
        kept = []
        peer = await place.peer(place.listen(lambda connection, data: kept.append(data[1:3])))
        await peer.write(frame(b"mine"))
        assert await peer.is_closed()

    with caplog.at_level(logging.ERROR):
        place.run(main())
    assert "BufferError" in caplog.text


def test_frames_are_writable_in_place(place):
    async def main():
        def on_frame(connection, data):
            data[0:2] = b"XX"
            echo(connection, data)

        for check_views in (True, False):
            peer = await place.peer(place.listen(on_frame, limits=ConnectionLimits(check_views=check_views)))
            await peer.write(frame(b"abcd"))
            assert await peer.read_frame() == b"XXcd"

    place.run(main())


def test_frames_that_go_together_are_offered_first(place):
    """Whatever is taken together and whatever singly: everything is answered once, in order."""
    together = []

    def on_frames(connection, reader):
        """Takes frames that begin with a digit; of what it does not want, it has looked at the first."""
        while reader.buffer is not None and reader.end - reader.start > 4:
            begin = reader.start + 4
            end = begin + int.from_bytes(reader.buffer.data[reader.start : begin], "big")
            if end > reader.end or not chr(reader.buffer.data[begin]).isdigit():
                break
            body = bytes(reader.buffer.view[begin:end])
            together.append(body)
            connection.send((frame(b"together " + body),))
            reader.pass_over(end, len(body))
        return 1

    async def main():
        listener = place.listen(echo, limits=ConnectionLimits(), on_frames=on_frames)
        peer = await place.peer(listener)
        bodies = [b"1", b"22", b"a", b"333" * 5000, b"b", b"c", b"4"] * 5
        await peer.write(b"".join(map(frame, bodies)))
        expected = [b"together " + body if body[:1].isdigit() else body for body in bodies]
        assert [await peer.read_frame() for _ in bodies] == expected

    place.run(main())
    assert len(together) == 20


def test_a_peer_that_reads_nothing_holds_a_bounded_amount(place):
    """Requests are small and replies large: without a bound, a few kilobytes sent would cost gigabytes."""
    limits = ConnectionLimits(unsent_bytes_max=100_000)
    reply_bytes = 50_000
    requests = 60 if place.is_virtual else 2_000

    async def main():
        handled = []

        def on_frame(connection, data):
            handled.append(bytes(data))
            connection.send((frame(bytes(data).ljust(reply_bytes, b".")),))

        listener = place.listen(on_frame, limits=limits)
        peer = await place.peer(listener)
        writing = asyncio.ensure_future(peer.write(b"".join(frame(b"%06d" % n) for n in range(requests))))
        await place.until(lambda: listener.connections)
        (connection,) = listener.connections
        # It stops above the bound, the socket may still take some of that, and it goes on at half of it.
        await place.until(lambda: connection.unsent_bytes > limits.unsent_bytes_max // 2)
        for _ in range(50):
            await place.turn()
            assert connection.unsent_bytes <= limits.unsent_bytes_max + reply_bytes + 4
        assert len(handled) < requests
        for number in range(requests):
            body = await peer.read_frame()
            assert body[:6] == b"%06d" % number
            assert connection.unsent_bytes <= limits.unsent_bytes_max + reply_bytes + 4
        await writing
        assert len(handled) == requests

    place.run(main())


def test_requests_without_a_reply_are_bounded(place):
    async def main():
        slots = []
        listener = place.listen(
            lambda connection, data: slots.append(connection.begin_reply()),
            limits=ConnectionLimits(outstanding_max=10),
        )
        peer = await place.peer(listener)
        await peer.write(frame(b"x") * 35)
        await place.until(lambda: len(slots) == 10)
        await place.turn(50)
        assert len(slots) == 10
        for number in range(35):
            await place.until(lambda number=number: len(slots) > number)
            slots[number].send((frame(b"%d" % number),))
            assert await peer.read_frame() == b"%d" % number

    place.run(main())


def test_frames_left_from_before_a_pause_are_not_read_over(place):
    """The buffer is full of whole frames when reading begins again, and more is waiting in the socket."""
    bodies = [bytes([65 + number % 26]) * 20_000 for number in range(60)]

    async def main():
        slots = []

        def on_frame(connection, data):
            slots.append((connection.begin_reply(), bytes(data[:1])))

        listener = place.listen(on_frame, limits=ConnectionLimits(outstanding_max=4))
        peer = await place.peer(listener)
        writing = asyncio.ensure_future(peer.write(b"".join(map(frame, bodies))))
        for number, body in enumerate(bodies):
            await place.until(lambda number=number: len(slots) > number)
            slot, first = slots[number]
            assert first == body[:1]
            slot.send((frame(first),))
        await writing
        assert [await peer.read_frame() for _ in bodies] == [body[:1] for body in bodies]

    place.run(main())


def test_half_a_frame_then_silence_does_not_trouble_others(place):
    async def main():
        listener = place.listen(echo)
        silent = [await place.peer(listener) for _ in range(10)]
        for number, peer in enumerate(silent):
            await peer.write(frame(bytes(20_000))[: 3 + number * 900])
        other = await place.peer(listener)
        await other.write(frame(b"hello"))
        assert await other.read_frame() == b"hello"
        assert len(listener.connections) == 11

    place.run(main())


class Opened:
    """A file as the log gives it."""

    def __init__(self, path, data):
        path.write_bytes(data)
        self._file = path.open("rb")
        self.faults = []

    def on_fault(self, error):
        self.faults.append(error)

    def fileno(self):
        return self._file.fileno()

    def read(self, position, count):
        self._file.seek(position)
        return self._file.read(count)

    def close(self):
        self._file.close()


@pytest.fixture
def file(tmp_path):
    file = Opened(tmp_path / "segment", random.Random(1).randbytes(3_000_000))
    yield file
    file.close()


@pytest.mark.parametrize("sizes", [[10], [100_000], [2_900_000], [5, 70_000, 1, 40_000, 0, 30_000, 16_384]])
def test_slices_of_files_leave_among_bytes(place, file, sizes):
    if place.is_virtual:  # where buffers are small, a tenth of a long one is long
        sizes = [min(size, 290_000) for size in sizes]

    async def main():
        def on_frame(connection, data):
            chunks, total = [], 0
            for size in sizes:
                chunks += [b"[%d]" % size, FileSlice(file, 1_000, size)]
            total = sum(map(len, chunks))
            connection.send([struct.pack(">i", total), *chunks])

        peer = await place.peer(place.listen(on_frame))
        await peer.write(frame(b"a") * 3)
        expected = b"".join(b"[%d]" % size + file.read(1_000, size) for size in sizes)
        assert [await peer.read_frame() for _ in range(3)] == [expected] * 3

    place.run(main())


@pytest.mark.parametrize("size", [500, 10_000, 1_000_000])
def test_a_file_that_ends_early_closes_the_connection(place, file, size):
    async def main():
        def on_frame(connection, data):
            connection.send([struct.pack(">i", size), FileSlice(file, 3_000_000 - size // 2, size)])

        peer = await place.peer(place.listen(on_frame))
        await peer.write(frame(b"a"))
        assert await peer.read_frame() is None

    place.run(main())


def test_a_fault_of_our_own_while_sending_closes_the_connection(place, file):
    """It came again in every turn of the loop, for the socket had room."""

    def fail(*_):
        raise RuntimeError("a mistake")

    async def main():
        def on_frame(connection, data):
            connection.send([struct.pack(">i", 500), FileSlice(file, 0, 500)])

        told = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
        file.read = fail
        peer = await place.peer(place.listen(on_frame))
        await peer.write(frame(b"a"))
        assert await peer.read_frame() is None
        assert len(told) <= 1

    place.run(main())


def test_a_file_that_was_closed_meanwhile_closes_the_connection(place, file):
    async def main():
        def on_frame(connection, data):
            file.close()
            connection.send([struct.pack(">i", 100_000), FileSlice(file, 0, 100_000)])

        peer = await place.peer(place.listen(on_frame))
        await peer.write(frame(b"a"))
        assert await peer.read_frame() is None

    place.run(main())


def longer_than_buffers(place):
    """A reply that no buffer takes as a whole, and the kernel's are large."""
    return 600_000 if place.is_virtual else 3_000_000


def test_a_long_file_leaves_room_for_others(place, file):
    """One connection's turn is bounded: another's short reply overtakes the rest of a long one."""
    size = longer_than_buffers(place)

    async def main():
        def on_frame(connection, data):
            if bytes(data) == b"long":
                part = FileSlice(file, 0, size)
                connection.send([struct.pack(">i", size * 5), part, part, part, part, part])
            else:
                echo(connection, data)

        limits = ConnectionLimits(turn_bytes_max=10_000, shared_turn_bytes_max=10_000)
        listener = place.listen(on_frame, limits=limits)
        greedy, modest = await place.peer(listener), await place.peer(listener)
        await greedy.write(frame(b"long"))
        reading = asyncio.ensure_future(greedy.read_frame())
        await modest.write(frame(b"short"))
        assert await modest.read_frame() == b"short"
        assert not reading.done()
        assert len(await reading) == size * 5

    place.run(main())


def test_while_others_get_short_replies_long_ones_leave_in_small_pieces(place):
    """From memory as from files: what is taken from a reply in one go is no more than a piece."""
    size = longer_than_buffers(place)
    taken = []

    async def main():
        def on_frame(connection, data):
            if bytes(data) != b"long":
                echo(connection, data)
                return
            sending = connection._sending
            sending.socket = Watched(sending.socket, taken)
            connection.send([struct.pack(">i", size), memoryview(bytes(size))])

        limits = ConnectionLimits(turn_bytes_max=1_000_000, shared_turn_bytes_max=10_000)
        listener = place.listen(on_frame, limits=limits)
        greedy, modest = await place.peer(listener), await place.peer(listener)
        await modest.write(frame(b"short"))
        assert await modest.read_frame() == b"short"
        await greedy.write(frame(b"long"))
        reading = asyncio.ensure_future(greedy.read_frame())
        while not reading.done():
            del taken[:]
            await modest.write(frame(b"short"))
            assert await modest.read_frame() == b"short"
            assert max(taken, default=0) <= 10_000
        assert len(await reading) == size
        # Nobody else is there: pieces are large again, and a short reply to the same peer changes nothing.
        for request in (b"long", b"rest", b"long"):
            del taken[:]
            await greedy.write(frame(request))
            await greedy.read_frame()
        assert taken[0] > 10_000

    place.run(main())


class Watched:
    """A socket that notes how much it is offered at once."""

    def __init__(self, socket, offered):
        self._socket, self._offered = socket, offered

    def __getattr__(self, name):
        return getattr(self._socket, name)

    def send(self, buffers):
        self._offered.append(sum(map(len, buffers)))
        return self._socket.send(buffers)


@pytest.mark.parametrize("where", ["fill", "on_frame"])
def test_want_of_memory_ends_its_connection_and_is_said_once(place, where, caplog, monkeypatch):
    """The socket stays readable: without an end the same would be met in every turn of the loop."""

    def starved(*_):
        raise MemoryError

    async def main():
        listener = place.listen(starved if where == "on_frame" else echo)
        peers = [await place.peer(listener) for _ in range(20)]
        if where == "fill":
            monkeypatch.setattr(FrameReader, "fill", starved)
        for peer in peers:
            with contextlib.suppress(ConnectionError):
                await peer.write(frame(b"anything"))
        await place.until(lambda: not listener.connections)
        monkeypatch.undo()

    with caplog.at_level("ERROR"):
        place.run(main())
    assert len(own_records(caplog)) == 1
