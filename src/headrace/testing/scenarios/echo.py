"""The transport under fire: a server that answers every frame with itself, and clients that count.

Rules: a connection's answers are its requests, whole, unharmed and in order; once faults stop, every
client is served within ten seconds. Replies are delayed at random on the server, so that reply slots are
filled out of order, and some are sent from a file.
"""

import asyncio
import logging
import random
from collections import deque
from typing import Final

from headrace.base.chunks import Chunk, Chunks, FileSlice
from headrace.telemetry.limited_log import LimitedLog
from headrace.testing.conditions import Conditions
from headrace.testing.machine import SimulatedMachine, Surroundings
from headrace.testing.nemesis import NETWORK, Nemesis, Trouble
from headrace.testing.world import CheckFailedError, World
from headrace.transport.connection import Connection
from headrace.transport.idle import IdleReaper
from headrace.transport.limits import ConnectionLimits, ReceiveLimits
from headrace.transport.listener import Listener
from headrace.transport.receive_memory import ReceiveMemory

log = logging.getLogger(__name__)

PORT: Final = 7
FRAME_BYTES_MAX: Final = 200_000
RAGE_S: Final = 8.0
PROGRESS_S: Final = 10.0
# A client that hears nothing for so long tries a new connection, as every Kafka client does.
PATIENCE_S: Final = 3.0
CLIENTS: Final = 3
KINDS: Final = (*NETWORK, Trouble.KILL, Trouble.POWER_CUT, Trouble.PAUSE)


def play(world: World) -> None:
    """One server, some clients, faults for a while, then none."""
    world.network.conditions = Conditions.drawn(world.rng)
    world.run(_script(world))


async def _script(world: World) -> None:
    server = world.machine("server")
    world.keep_running(server, _serve)
    clients = [_Client(world, number) for number in range(CLIENTS)]
    kinds = [kind for kind in KINDS if world.rng.random() < 0.5]
    nemesis = Nemesis(world, [server], kinds)
    await nemesis.rage(RAGE_S)
    nemesis.calm()
    # On a bad day 30 kB come through in a second: the largest frame takes longer than `PROGRESS_S`.
    world.network.conditions = Conditions()
    before = [client.answered for client in clients]
    await world.until(
        lambda: all(now.answered > was for now, was in zip(clients, before, strict=True)),
        timeout_s=PROGRESS_S,
        what="an answer for every client after faults stopped",
    )


async def _serve(own: Surroundings) -> None:
    """Echo: now, later, or out of a file."""
    memory = ReceiveMemory(own.loop, ReceiveLimits(buffer_bytes=own.rng.choice([64, 4096, 65_536])))
    own.disk.make_folder("/files")

    def on_frame(connection: Connection, frame: memoryview) -> None:
        reply = _reply(own, bytes(frame))
        slot = connection.begin_reply()
        if own.rng.random() < 0.5:
            slot.send(reply)
        else:
            own.loop.call_later(own.rng.random() * 0.05, slot.send, reply)

    limits = ConnectionLimits(outstanding_max=own.rng.choice([2, 512]), check_views=True)
    listener = Listener(own.loop, own.network, memory=memory, on_frame=on_frame, limits=limits)
    listener.listen("0.0.0.0", PORT)
    await asyncio.get_running_loop().create_future()


def _reply(own: Surroundings, frame: bytes) -> Chunks:
    length = len(frame).to_bytes(4, "big")
    body: Chunk = frame
    if own.rng.random() < 0.3:
        file = own.disk.open("/files/echo", create=True)
        position = 0 if file.size() > 4 * FRAME_BYTES_MAX else file.size()
        # Written over only when all replies that refer to it are long gone.
        if position == 0:
            own.disk.remove("/files/echo")
            file = own.disk.open("/files/echo", create=True)
        file.write(position, [frame])
        body = FileSlice(file, position, len(frame))
    return [length, body]


class _Client:
    """Sends frames, several at once, and expects each of them back."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.answered = 0
        self._expected: deque[bytes] = deque()
        self._connection: Connection | None = None
        self._done = asyncio.Event()
        self.machine: SimulatedMachine = world.machine(f"client-{number}")
        self.machine.boot(self._run)

    async def _run(self, own: Surroundings) -> None:
        self._done = asyncio.Event()
        memory = ReceiveMemory(own.loop)
        idle = IdleReaper(own.loop, 0)
        while True:
            socket = own.network.connect("server", PORT)
            self._connection = Connection(
                own.loop,
                socket,
                memory=memory,
                limits=ConnectionLimits(check_views=True),
                on_frame=self._on_frame,
                on_close=self._on_close,
                idle=idle,
                limited_log=LimitedLog(own.loop.time, log, logging.INFO),
            )
            self._expected.clear()
            self._connection.start()
            await self._use(self._connection, own.rng)
            self._connection.abort("enough")
            await asyncio.sleep(own.rng.random() * 0.2)

    async def _use(self, connection: Connection, rng: random.Random) -> None:
        """Until it breaks, falls silent, or by chance."""
        while not connection.closed and rng.random() < 0.95:
            for _ in range(rng.randint(1, 8)):
                frame = rng.randbytes(_frame_size(rng))
                self._expected.append(frame)
                connection.send([len(frame).to_bytes(4, "big") + frame])
            self._done.clear()
            try:
                await asyncio.wait_for(self._done.wait(), PATIENCE_S)
            except TimeoutError:
                return

    def _on_frame(self, connection: Connection, frame: memoryview) -> None:
        if not self._expected:
            raise CheckFailedError("an answer that nobody asked for")
        if self._expected.popleft() != frame:
            self.world.driver.uncaught.append({"message": f"{self.machine.name}: not what was sent"})
        self.answered += 1
        if not self._expected:
            self._done.set()

    def _on_close(self, connection: Connection, reason: str) -> None:
        self._done.set()


def _frame_size(rng: random.Random) -> int:
    return rng.randrange(1, rng.choice([50, 50, 5_000, FRAME_BYTES_MAX]))
