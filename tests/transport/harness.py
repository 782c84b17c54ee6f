"""What the tests of this room stand on: a network with its loop, and a peer that speaks raw bytes.

The same tests run on the kernel's sockets under asyncio and uvloop, and on the simulated network, once as it
is by default and once at its meanest: short reads and writes, split packets, a tiny buffer.
"""

import asyncio
import contextlib
import struct

import uvloop

from headrace.testing.conditions import Conditions
from headrace.testing.loop import SimulatedLoop
from headrace.testing.network import VirtualNetwork
from headrace.transport.limits import ConnectionLimits, ReceiveLimits
from headrace.transport.listener import Listener
from headrace.transport.receive_memory import ReceiveMemory
from headrace.transport.system_network import SystemNetwork

KINDS = ["asyncio", "uvloop", "virtual", "virtual and mean"]
REAL_KINDS = ["asyncio", "uvloop"]
WAIT_S = 240.0
MEAN = Conditions(short_rate=0.9, split_rate=0.9, loss_rate=0.05, buffer_bytes=1_000)


def frame(body):
    return struct.pack(">i", len(body)) + body


class Place:
    """A network and the loop that drives it."""

    def __init__(self, kind, receive=None):
        if kind in REAL_KINDS:
            self.loop = asyncio.SelectorEventLoop() if kind == "asyncio" else uvloop.new_event_loop()
            self.network = SystemNetwork()
        else:
            self.loop = SimulatedLoop(seed=7)
            virtual = VirtualNetwork(self.loop.scheduler, MEAN if "mean" in kind else None)
            self.network = virtual.attach("here", self.loop)
        self.is_virtual = kind not in REAL_KINDS
        self.memory = ReceiveMemory(self.loop, receive or ReceiveLimits())
        self.listeners = []

    def run(self, coroutine):
        return self.loop.run_until_complete(asyncio.wait_for(coroutine, WAIT_S))

    def listen(self, on_frame, *, limits=None, admit=True, **options):
        listener = Listener(
            self.loop,
            self.network,
            memory=self.memory,
            on_frame=on_frame,
            limits=limits or ConnectionLimits(check_views=True),
            **options,
        )
        listener.listen("127.0.0.1", 0, admit=admit)
        self.listeners.append(listener)
        return listener

    async def peer(self, listener):
        peer = Peer(self.loop, self.network.connect("127.0.0.1", listener.address[1]))
        await peer.ready("writer")
        return peer

    async def until(self, condition):
        """Wait for a condition that the loop's own work makes true."""
        while not condition():
            await self.turn()

    async def turn(self, times=1):
        """Let the loop look at its sockets; on virtual time, let a millisecond pass."""
        for _ in range(times):
            await asyncio.sleep(0.001 if self.is_virtual else 0)

    def close(self):
        for listener in self.listeners:
            listener.close()
        self.loop.close()
        if isinstance(self.loop, SimulatedLoop):
            assert not self.loop.uncaught


class Peer:
    """The other end of a connection, byte by byte."""

    def __init__(self, loop, socket):
        self.loop, self.socket = loop, socket
        self.received = bytearray()
        self.ended = False

    async def ready(self, side):
        event = asyncio.Event()
        getattr(self.loop, f"add_{side}")(self.socket.fileno(), event.set)
        try:
            await event.wait()
        finally:
            getattr(self.loop, f"remove_{side}")(self.socket.fileno())

    async def write(self, data):
        data = memoryview(data)
        while data:
            with contextlib.suppress(BlockingIOError):
                data = data[self.socket.send((data,)) :]
            if data:
                await self.ready("writer")

    async def read_some(self):
        buffer = bytearray(256 * 1024)
        await self.ready("reader")
        try:
            count = self.socket.recv_into(buffer)
        except BlockingIOError:
            return
        except ConnectionError:
            count = 0
        self.received += buffer[:count]
        self.ended = not count

    async def read_frame(self):
        """The next reply without its length; None once the other side has closed."""
        while not self.ended:
            if len(self.received) >= 4:
                (length,) = struct.unpack_from(">i", self.received)
                if len(self.received) >= 4 + length:
                    body = bytes(self.received[4 : 4 + length])
                    del self.received[: 4 + length]
                    return body
            await self.read_some()
        return None

    async def is_closed(self):
        """Wait for the other side to close."""
        while not self.ended:
            await self.read_some()
        return True

    def close(self):
        self.socket.close()


def own_records(caplog):
    """What headrace has said; others in this process, such as clients of tests before this one, may say
    something at any time."""
    return [record for record in caplog.records if record.name.startswith("headrace")]


def echo(connection, data):
    """Answer a frame with its own bytes."""
    connection.send((frame(bytes(data)),))
