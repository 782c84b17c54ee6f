"""Frames that outlive their handler: they keep their memory, it is counted, and what comes behind waits."""

import struct

import pytest

from headrace.transport.limits import ConnectionLimits, ReceiveLimits
from tests.transport.harness import KINDS, REAL_KINDS, Place, frame


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("check_views", [True, False])
@pytest.mark.parametrize("size", [10, 3_000_000])
def test_a_kept_frame_is_not_written_over(kind, check_views, size):
    if size > 1000 and "mean" in kind:
        size = 100_000
    place = Place(kind)

    async def main():
        gate = place.loop.create_future()
        kept, held = [], []

        def work(connection, data, slot):
            yield gate
            held.append(place.memory.held_bytes)
            slot.send((frame(bytes(data[:4]) + b"%d" % len(set(data[4:]))),))

        def on_frame(connection, data):
            if data[:4] != b"keep":
                connection.send((frame(bytes(data)),))
                return
            connection.keep_frame()
            kept.append(connection)
            connection.work_on(work(connection, data, connection.begin_reply()))

        listener = place.listen(on_frame, limits=ConnectionLimits(check_views=check_views))
        peer, other = await place.peer(listener), await place.peer(listener)
        await peer.write(frame(b"keep" + b"k" * size) + frame(b"behind") + frame(b"again"))
        await place.until(lambda: kept)
        for number in range(5):
            await other.write(frame(b"x" * 5000 + b"%d" % number))
            assert await other.read_frame() == b"x" * 5000 + b"%d" % number
        assert place.memory.held_bytes >= (size if not check_views else 1)
        gate.set_result(None)
        assert await peer.read_frame() == b"keep1"
        assert await peer.read_frame() == b"behind"
        assert await peer.read_frame() == b"again"
        await peer.write(frame(b"later"))
        assert await peer.read_frame() == b"later"
        assert held[0] > 0
        assert place.memory.held_bytes == 0

    place.run(main())
    place.close()


@pytest.mark.parametrize("kind", REAL_KINDS)
def test_kept_frames_hold_up_others_where_memory_is_short(kind):
    """They count as unfinished ones: who sends the next large one waits until there is room."""
    place = Place(kind, ReceiveLimits(unfinished_bytes_max=6_000_000))
    size = 5_000_000

    async def main():
        gate = place.loop.create_future()
        kept = []

        def work(slot):
            yield gate
            slot.send((frame(b"done"),))

        def on_frame(connection, data):
            connection.keep_frame()
            kept.append(data)
            connection.work_on(work(connection.begin_reply()))

        listener = place.listen(on_frame, limits=ConnectionLimits())
        peers = [await place.peer(listener) for _ in range(3)]
        whole = struct.pack(">i", size) + b"k" * size
        await peers[0].write(whole)
        await place.until(lambda: len(kept) == 1)
        sending = [place.loop.create_task(peer.write(whole)) for peer in peers[1:]]
        await place.until(lambda: len(kept) == 2)  # one may go on where there is no room
        await place.turn(200)
        assert len(kept) == 2
        gate.set_result(None)
        for peer in peers:
            assert await peer.read_frame() == b"done"
        for each in sending:
            await each
        assert place.memory.held_bytes == 0

    place.run(main())
    place.close()


@pytest.mark.parametrize("kind", REAL_KINDS)
def test_a_connection_that_ends_gives_back_what_it_kept(kind):
    place = Place(kind)

    async def main():
        kept = []

        def work():
            yield place.loop.create_future()

        def on_frame(connection, data):
            connection.keep_frame()
            kept.append(connection)
            connection.work_on(work())

        peer = await place.peer(place.listen(on_frame, limits=ConnectionLimits()))
        await peer.write(frame(b"k" * 400_000))
        await place.until(lambda: kept and place.memory.held_bytes)
        kept[0].abort("the test ends it")
        assert place.memory.held_bytes == 0

    place.run(main())
    place.close()
