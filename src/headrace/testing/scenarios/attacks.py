"""What hostile clients do to a simulated node: raw bytes on raw connections, by a seed's choice.

Each attack is a coroutine that does its worst once and returns; an attacker repeats it until its time is
over. `tests/compat/attacks` has the same against a real process, with what it costs there.
"""

import asyncio
import contextlib
import random
import struct
from collections.abc import Awaitable, Callable
from typing import Any, Final

from headrace.base.ids import TopicPartition
from headrace.clients import AsyncAdmin, AsyncConsumer
from headrace.testing.machine import Surroundings
from headrace.testing.node_cluster import PORT
from headrace.testing.scenarios.cluster_clients import surroundings
from headrace.testing.streams import Stream
from headrace.testing.world import World
from headrace.wire.framing import request_frame
from headrace.wire.schemas.api_versions import ApiVersionsRequest
from headrace.wire.schemas.list_groups import ListGroupsRequest
from headrace.wire.schemas.metadata import MetadataRequest

WIDE: Final = "wide"
WIDE_PARTITIONS: Final = 270
"""With those of other topics more than are told at once: Metadata of them is made in slices."""

GROUPS: Final = 20
FLOOD: Final = 8_000
"""Requests that are sent at once: more than two seconds of work."""

LARGE: Final = struct.pack(">i", 1_900_000)
"""The length of a frame that is about the longest a node takes here."""

NAMES: Final = 20_000
PATIENCE_S: Final = 2.0
PAUSES_S: Final = (0.5, 2.0, 8.0)
"""Between two attacks, on average: some never let go, some come back when all seems quiet."""


class RawConnection:
    """A connection that sends whatever it is told to."""

    def __init__(self, own: Surroundings, stream: Stream) -> None:
        self._own = own
        self._stream = stream
        self._buffer = bytearray(64 * 1024)

    async def send(self, data: bytes) -> None:
        """Send as much as is taken within some time; OSError where the connection ends."""
        rest = memoryview(data)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                while rest:
                    try:
                        rest = rest[self._stream.send((rest,)) :]
                    except BlockingIOError:
                        await self._ready(self._own.loop.add_writer, self._own.loop.remove_writer)

    async def read(self, seconds: float) -> None:
        """Read whatever comes for so long, or until the connection ends."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    try:
                        if not self._stream.recv_into(self._buffer):
                            return
                    except BlockingIOError:
                        await self._ready(self._own.loop.add_reader, self._own.loop.remove_reader)

    async def _ready(self, watch: Callable[..., Any], unwatch: Callable[..., Any]) -> None:
        event = asyncio.Event()
        watch(self._stream.fileno(), event.set)
        try:
            await event.wait()
        finally:
            unwatch(self._stream.fileno())

    def close(self) -> None:
        self._stream.close()


class Attacker:
    """One hostile client: what it does, to which node and port, and for how long."""

    def __init__(self, world: World, name: str, kind: str, host: str, port: int, seconds: float) -> None:
        self.world = world
        self.name = name
        self.kind = kind
        self._host = host
        self._port = port
        self._seconds = seconds
        self.is_done = False

    async def run(self, own: Surroundings) -> None:
        self.world.note(f"{self.name} attacks {self._host}:{self._port}: {self.kind}")
        ends = own.loop.time() + self._seconds
        pause_s = own.rng.choice(PAUSES_S)
        while own.loop.time() < ends:
            connections: list[RawConnection] = []

            def connect(own: Surroundings = own, made: list[RawConnection] = connections) -> RawConnection:
                made.append(RawConnection(own, own.network.connect(self._host, self._port)))
                return made[-1]

            try:
                await ATTACKS[self.kind](connect, own.rng)
            except OSError as error:
                self.world.note(f"{self.name} is stopped: {error}")
            finally:
                for each in connections:
                    each.close()
            await asyncio.sleep(min(own.rng.expovariate(1 / pause_s), max(0, ends - own.loop.time())))
        self.is_done = True


Connect = Callable[[], RawConnection]


def _bytes_of(message: object, version: int) -> bytes:
    chunks = request_frame(message, version, 1, "attacker")
    return b"".join(chunk for chunk in chunks if isinstance(chunk, bytes | bytearray | memoryview))


async def _flood(connect: Connect, request: bytes) -> None:
    """One connection that asks the same thing thousands of times without waiting; it reads the replies."""
    own = connect()
    await own.send(request * FLOOD)
    await own.read(PATIENCE_S)


async def list_groups(connect: Connect, rng: random.Random) -> None:
    await _flood(connect, _bytes_of(ListGroupsRequest(states_filter=["Dead"]), 4))


async def api_versions(connect: Connect, rng: random.Random) -> None:
    await _flood(connect, _bytes_of(ApiVersionsRequest(), 0))


async def never_read(connect: Connect, rng: random.Random) -> None:
    """Connections that ask for everything again and again, and read nothing."""
    request = _bytes_of(MetadataRequest(topics=None), 9) * 200
    await asyncio.gather(*(connect().send(request) for _ in range(5)))
    await asyncio.sleep(rng.random() * PATIENCE_S)


async def unfinished(connect: Connect, rng: random.Random) -> None:
    """Frames that are announced to be long and stop, or trickle."""
    beginning = LARGE + bytes(rng.choice([4, 5_000, 50_000]))
    own = [connect() for _ in range(30)]
    await asyncio.gather(*(each.send(beginning) for each in own))
    for _ in range(rng.randint(1, 10)):
        await asyncio.sleep(PATIENCE_S / 4)
        for each in own:
            with contextlib.suppress(OSError):
                await each.send(b"\0")


async def garbage(connect: Connect, rng: random.Random) -> None:
    """Frames of any bytes, some behind the beginning of a header that is known."""
    for _ in range(20):
        body = rng.randbytes(rng.choice([1, 10, 100, 3_000]))
        if rng.random() < 0.7:
            body = struct.pack(">hhih", rng.randint(0, 75), rng.randint(0, 12), 1, -1) + body
        length = len(body) if rng.random() < 0.8 else rng.choice([0, -1, 2**31 - 1, len(body) - 1])
        with contextlib.suppress(OSError):
            own = connect()
            await own.send(struct.pack(">i", length) + body)
            await own.read(0.05)


async def metadata_storm(connect: Connect, rng: random.Random) -> None:
    """Clients that all ask for all topics at once, as after a restart."""

    async def ask() -> None:
        own = connect()
        await own.send(request * rng.randint(1, 3))
        await own.read(PATIENCE_S)

    request = _bytes_of(MetadataRequest(topics=None), rng.choice([1, 9, 12]))
    await asyncio.gather(*(ask() for _ in range(20)))


async def big_arrays(connect: Connect, rng: random.Random) -> None:
    """A Metadata v1 request for thousands of topics without a name, and one that claims to be longer."""
    count = rng.choice([NAMES, 1_000_001])
    body = struct.pack(">hhihi", 3, 1, 1, -1, count) + bytes(2 * NAMES)
    own = connect()
    await own.send(struct.pack(">i", len(body)) + body)
    await own.read(PATIENCE_S)


Run = Callable[[Connect, random.Random], Awaitable[None]]

ON_ANY_PORT: Final[dict[str, Run]] = {
    "api-versions": api_versions,
    "garbage": garbage,
    "unfinished": unfinished,
}
ATTACKS: Final[dict[str, Run]] = ON_ANY_PORT | {
    "big-arrays": big_arrays,
    "list-groups": list_groups,
    "metadata-storm": metadata_storm,
    "never-read": never_read,
}


async def prepare(own: Surroundings) -> None:
    """A wide topic and some groups, so that there is something to be asked for."""
    settings = {"bootstrap.servers": f"node1:{PORT}"}
    environment = surroundings(own)
    async with AsyncAdmin(settings, environment=environment) as admin:
        await admin.create_topic(WIDE, partitions=WIDE_PARTITIONS, replication_factor=1)
    for number in range(GROUPS):
        async with AsyncConsumer(settings | {"group.id": f"g{number}"}, environment=environment) as consumer:
            await consumer.commit({TopicPartition(WIDE, 0): 0})
