"""Large frames: how their bytes are waited for, and what they make a connection hold."""

import asyncio
import contextlib
import struct

import pytest

from headrace.transport.limits import ConnectionLimits, ReceiveLimits
from headrace.transport.system_network import SystemSocket
from tests.transport.harness import KINDS, REAL_KINDS, Place, echo, frame


@pytest.mark.parametrize("kind", REAL_KINDS)
def test_a_huge_frame_grows_its_buffer_and_leaves_none_behind(kind):
    place = Place(kind)
    size = 30 * 1024 * 1024

    async def main():
        sizes = []

        def on_frame(connection, data):
            sizes.append(len(data))
            connection.send((frame(b"%d" % len(data)),))

        peer = await place.peer(place.listen(on_frame, limits=ConnectionLimits()))
        await peer.write(struct.pack(">i", size) + bytes(size) + frame(b"small"))
        assert await peer.read_frame() == b"%d" % size
        assert await peer.read_frame() == b"5"
        assert sizes == [size, 5]
        assert place.memory.held_bytes == 0
        assert place.memory.spare_bytes <= place.memory.limits.spare_bytes_max

    place.run(main())
    place.close()


@pytest.mark.parametrize("kind", REAL_KINDS)
def test_a_claim_of_a_huge_frame_costs_no_memory(kind):
    place = Place(kind)

    async def main():
        listener = place.listen(echo, limits=ConnectionLimits())
        peers = [await place.peer(listener) for _ in range(20)]
        for peer in peers:
            await peer.write(struct.pack(">i", 100 * 1024 * 1024) + bytes(5_000))
        await place.until(lambda: place.memory.held_bytes > 0)
        assert place.memory.held_bytes <= 20 * place.memory.limits.buffer_bytes

    place.run(main())
    place.close()


@pytest.mark.parametrize("kind", REAL_KINDS)
def test_the_rest_of_a_large_frame_wakes_its_reader_for_much_at_once(kind, monkeypatch):
    awaited = []
    await_bytes = SystemSocket.await_bytes

    def noting(self, count):
        awaited.append(count)
        await_bytes(self, count)

    monkeypatch.setattr(SystemSocket, "await_bytes", noting)
    place = Place(kind)

    async def main():
        peer = await place.peer(place.listen(echo))
        large, small = bytes(1_000_000), b"small"
        whole = frame(large) + frame(small)
        for at in range(0, len(whole), 70_000):
            await peer.write(whole[at : at + 70_000])
            await place.turn()
        assert await peer.read_frame() == large
        assert await peer.read_frame() == small, "whatever was awaited before"
        assert awaited[-1] == 1
        assert max(awaited) == ConnectionLimits().awaited_bytes_max
        assert len(awaited) < 8
        awaited.clear()
        for _ in range(20):
            await peer.write(frame(small))
            assert await peer.read_frame() == small
        assert not awaited

    place.run(main())
    place.close()


@pytest.mark.parametrize("kind", REAL_KINDS)
def test_a_peer_that_goes_in_the_middle_of_a_large_frame_is_noticed(kind):
    place = Place(kind)

    async def main():
        listener = place.listen(echo)
        peer = await place.peer(listener)
        await peer.write(frame(bytes(1_000_000))[:500_000])
        await place.until(lambda: place.memory.held_bytes > 0)
        peer.close()
        await place.until(lambda: not place.memory.held_bytes)

    place.run(main())
    place.close()


@pytest.mark.parametrize("kind", KINDS)
def test_many_large_frames_at_once_share_the_memory_there_is(kind):
    """More unfinished frames than memory allows: some wait, none is lost, and the bound holds."""
    receive = ReceiveLimits(
        buffer_bytes=8 * 1024, buffer_bytes_expected_max=16 * 1024, unfinished_bytes_max=100_000
    )
    place = Place(kind, receive)
    most = 0

    async def main():
        nonlocal most

        def on_frame(connection, data):
            connection.send((frame(b"%d" % len(data)),))

        listener = place.listen(on_frame)
        peers = [await place.peer(listener) for _ in range(20)]
        message = frame(bytes(30_000))

        async def send_slowly(peer):
            nonlocal most
            for start in range(0, len(message), 2_000):
                await peer.write(message[start : start + 2_000])
                await place.turn()
                most = max(most, place.memory.held_bytes)

        await asyncio.gather(*map(send_slowly, peers))
        assert [await peer.read_frame() for peer in peers] == [b"30000"] * 20
        assert place.memory.held_bytes == 0

    place.run(main())
    assert 100_000 < most <= 125_000 + 32 * 1024, "what all may hold, and the one that is favoured"
    place.close()


@pytest.mark.parametrize("kind", KINDS)
def test_frames_that_never_end_do_not_starve_one_that_takes_several_reads(kind):
    receive = ReceiveLimits(
        buffer_bytes=8 * 1024, buffer_bytes_expected_max=16 * 1024, unfinished_bytes_max=200_000
    )
    place = Place(kind, receive)
    beginning = struct.pack(">i", 90_000_000) + bytes(12 * 1024)

    async def main():
        listener = place.listen(echo, limits=ConnectionLimits())
        hostile = [await place.peer(listener) for _ in range(60)]
        polite = await place.peer(listener)

        async def attack(peer):
            with contextlib.suppress(OSError):
                await peer.write(beginning)

        attacks = [place.loop.create_task(attack(peer)) for peer in hostile]
        await place.until(lambda: place.memory.is_short)
        for _ in range(3):
            await polite.write(frame(bytes(100_000)))
            assert await polite.read_frame() == bytes(100_000)
        assert place.memory.is_short, "nobody had to be closed for it"
        for each in attacks:
            each.cancel()

    place.run(main())
    place.close()
