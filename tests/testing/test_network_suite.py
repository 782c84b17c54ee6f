"""One suite for both networks: what holds for the kernel's sockets must hold for the simulated ones."""

import asyncio
import contextlib
import errno
import random

import pytest

from headrace.base.chunks import FileSlice
from headrace.log.system_disk import SystemDisk
from headrace.testing.conditions import Conditions
from headrace.testing.disk import VirtualDisk
from headrace.testing.loop import SimulatedLoop
from headrace.testing.network import VirtualNetwork
from headrace.transport.system_network import SystemNetwork

WAIT_S = 60.0


class Place:
    """A network, the loop that drives it, and a disk to send files from."""

    def __init__(self, network, loop, disk, folder):
        self.network, self.loop, self.disk, self.folder = network, loop, disk, folder

    def run(self, coroutine):
        return self.loop.run_until_complete(asyncio.wait_for(coroutine, WAIT_S))

    async def ready(self, socket, side="reader"):
        """Wait until the loop says that the socket can be read or written."""
        event = asyncio.Event()
        getattr(self.loop, f"add_{side}")(socket.fileno(), event.set)
        try:
            await event.wait()
        finally:
            getattr(self.loop, f"remove_{side}")(socket.fileno())

    async def pair(self):
        """A listener's new connection: (client's end, accepted end)."""
        listening = self.network.listen("127.0.0.1", 0, backlog=5)
        client = self.network.connect("127.0.0.1", listening.address[1])
        await self.ready(listening)
        accepted = listening.accept()
        await self.ready(client, "writer")
        listening.close()
        return client, accepted

    async def read(self, socket, count):
        """Exactly `count` bytes, or all until the end when that comes first."""
        received, buffer = bytearray(), bytearray(10_000)
        while len(received) < count:
            await self.ready(socket)
            got = socket.recv_into(memoryview(buffer)[: count - len(received)])
            if not got:
                break
            received += buffer[:got]
        return bytes(received)

    async def write(self, socket, *buffers):
        data = memoryview(b"".join(buffers))
        while data:
            await self.ready(socket, "writer")
            with contextlib.suppress(BlockingIOError):
                data = data[socket.send([data]) :]


@pytest.fixture(params=["virtual", "virtual and mean", "system"])
def place(request, tmp_path):
    if request.param == "system":
        loop = asyncio.SelectorEventLoop()
        yield Place(SystemNetwork(), loop, SystemDisk(), str(tmp_path))
    else:
        mean = Conditions(short_rate=0.9, split_rate=0.9, loss_rate=0.05, buffer_bytes=1_000)
        loop = SimulatedLoop(seed=3)
        network = VirtualNetwork(loop.scheduler, mean if "mean" in request.param else None)
        disk = VirtualDisk()
        disk.make_folder("/data")
        yield Place(network.attach("here", loop), loop, disk, "/data")
        assert not loop.uncaught
    loop.close()


def test_both_ends_know_their_addresses(place):
    async def main():
        client, accepted = await place.pair()
        assert client.local == accepted.peer
        assert client.peer == accepted.local
        assert client.fileno() != accepted.fileno()

    place.run(main())


def test_bytes_arrive_in_order_both_ways(place):
    async def main():
        client, accepted = await place.pair()
        rng = random.Random(1)
        there, back = rng.randbytes(30_000), rng.randbytes(20_000)
        results = await asyncio.gather(
            place.write(client, there),
            place.write(accepted, back),
            place.read(accepted, len(there)),
            place.read(client, len(back)),
        )
        assert results[2:] == [there, back]

    place.run(main())


def test_several_buffers_leave_in_one_call(place):
    async def main():
        client, accepted = await place.pair()
        parts = [b"one", bytearray(b"two"), memoryview(b"three")]
        sent = client.send(parts)
        assert 1 <= sent <= 11
        assert await place.read(accepted, sent) == b"onetwothree"[:sent]

    place.run(main())


def test_nothing_to_do_is_told_at_once(place):
    async def main():
        client, accepted = await place.pair()
        with pytest.raises(BlockingIOError):
            accepted.recv_into(bytearray(10))
        listening = place.network.listen("127.0.0.1", 0, backlog=5)
        with pytest.raises(BlockingIOError):
            listening.accept()
        listening.close()
        client.close()

    place.run(main())


def test_the_end_comes_after_the_last_byte_and_stays(place):
    async def main():
        client, accepted = await place.pair()
        await place.write(client, b"last words")
        client.close()
        assert await place.read(accepted, 100) == b"last words"
        await place.ready(accepted)
        assert accepted.recv_into(bytearray(1)) == 0
        assert accepted.recv_into(bytearray(1)) == 0

    place.run(main())


def test_a_closed_socket_refuses_everything(place):
    async def main():
        client, accepted = await place.pair()
        client.close()
        client.close()
        with pytest.raises(OSError, match="Bad file") as raised:
            client.send([b"x"])
        assert raised.value.errno == errno.EBADF
        accepted.close()

    place.run(main())


def test_nobody_listens(place):
    async def main():
        listening = place.network.listen("127.0.0.1", 0, backlog=5)
        port = listening.address[1]
        listening.close()
        client = place.network.connect("127.0.0.1", port)
        await place.ready(client, "writer")
        with pytest.raises(ConnectionRefusedError):
            client.send([b"x"])
        client.close()

    place.run(main())


def test_a_port_is_taken_until_its_listener_closes(place):
    async def main():
        listening = place.network.listen("127.0.0.1", 0, backlog=5)
        port = listening.address[1]
        with pytest.raises(OSError, match="in use") as raised:
            place.network.listen("127.0.0.1", port, backlog=5)
        assert raised.value.errno == errno.EADDRINUSE
        listening.close()
        place.network.listen("127.0.0.1", port, backlog=5).close()

    place.run(main())


def test_connections_that_were_never_accepted_are_reset(place):
    async def main():
        listening = place.network.listen("127.0.0.1", 0, backlog=5)
        client = place.network.connect("127.0.0.1", listening.address[1])
        await place.ready(listening)
        await place.ready(client, "writer")
        listening.close()
        await place.ready(client)
        with pytest.raises(ConnectionResetError):
            client.recv_into(bytearray(1))
        client.close()

    place.run(main())


def test_a_reader_that_does_not_read_stops_the_writer(place):
    async def main():
        client, accepted = await place.pair()
        sent = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                sent += client.send([bytes(50_000)])
        writable = asyncio.ensure_future(place.ready(client, "writer"))
        drained = 0
        while not writable.done() and drained < sent:
            drained += len(await place.read(accepted, min(50_000, sent - drained)))
        await writable
        assert client.send([b"x"]) == 1

    place.run(main())


def test_closing_with_bytes_unread_resets_the_peer(place):
    async def main():
        client, accepted = await place.pair()
        await place.write(client, b"never read")
        await place.ready(accepted)
        accepted.close()
        await place.ready(client)
        with pytest.raises(ConnectionResetError):
            client.recv_into(bytearray(1))
        assert client.recv_into(bytearray(1)) == 0
        with pytest.raises(BrokenPipeError):
            client.send([b"x"])
        client.close()

    place.run(main())


def test_sending_to_a_closed_peer_fails_in_the_end(place):
    async def main():
        client, accepted = await place.pair()
        accepted.close()
        await place.ready(client)
        assert client.recv_into(bytearray(1)) == 0

        async def insist():
            while True:
                await place.write(client, b"anybody there?")

        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            await insist()

    place.run(main())


def test_send_file(place):
    async def main():
        client, accepted = await place.pair()
        content = random.Random(2).randbytes(40_000)
        file = place.disk.open(f"{place.folder}/a", create=True)
        file.write(0, [content])

        async def send_all():
            part = FileSlice(file, 1_000, 30_000)
            while part.size:
                await place.ready(client, "writer")
                with contextlib.suppress(BlockingIOError):
                    count = client.send_file(part)
                    assert 1 <= count <= part.size
                    part = FileSlice(file, part.position + count, part.size - count)

        _, received = await asyncio.gather(send_all(), place.read(accepted, 30_000))
        assert received == content[1_000:31_000]
        assert client.send_file(FileSlice(file, 40_000, 10)) == 0, "the file ended early"

    place.run(main())


def test_readiness_is_told_again_until_it_is_used(place):
    async def main():
        client, accepted = await place.pair()
        await place.write(client, b"two")
        for _ in range(3):
            await place.ready(accepted)
        assert await place.read(accepted, 3) == b"two"

    place.run(main())


def test_an_unknown_host_is_told_at_once(place):
    with pytest.raises(OSError):  # noqa: PT011 - resolvers differ in their words and numbers
        place.network.connect("no-such-host.invalid", 1)
