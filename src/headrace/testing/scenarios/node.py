"""The real node, whole, under everything that can happen to one machine and its connections.

Rules: what was acknowledged is there, once, at its offset, in the order it was sent: after a kill always,
after a power cut where the topic has flush.messages=1. Nothing is there that nobody sent. What is damaged
is never given out as good. The node comes back by itself. In half of the runs, every producer is
acknowledged within ten seconds of the end of the faults; in the other half more is broken, and only safety
counts.
"""

import asyncio
import random
from itertools import pairwise
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.node.assembly import start_node
from headrace.records.batch import batches
from headrace.settings.broker_config import BrokerConfig
from headrace.testing.conditions import Conditions
from headrace.testing.machine import Program, SimulatedMachine, Surroundings
from headrace.testing.nemesis import NETWORK, Nemesis, Trouble
from headrace.testing.scenarios.log import UNCOVERED
from headrace.testing.scenarios.node_clients import (
    HOST,
    PORT,
    TOPIC,
    DamageSeenError,
    Link,
    Producer,
    create_topic,
    read_partition,
)
from headrace.testing.world import CheckFailedError, World

RAGE_S: Final = 6.0
PROGRESS_S: Final = 10.0
# Where only safety counts the node still has to come back some time, or there is nothing to look at.
SAFETY_S: Final = 120.0
PARTITIONS: Final = 2
# The slowest of the drawn networks needs seconds for a reader's largest fetch.
READER_PATIENCE_MS: Final = 30_000
ALWAYS: Final = (
    *NETWORK,
    Trouble.KILL,
    Trouble.PAUSE,
    Trouble.CLOCK_JUMP,
    Trouble.SLOW_DISK,
    Trouble.DISK_FULL,
)


class NodeFailedError(Exception):
    """The node said that it can only be stopped: its supervisor starts another."""


def play(world: World) -> None:
    """One node, a producer for each partition, faults for a while, then a look at everything."""
    world.run(_Run(world).script())


class _Run:
    def __init__(self, world: World) -> None:
        self.world = world
        rng = world.rng
        self.is_about_liveness = rng.random() < 0.5
        # A power cut may take what a kill may not: such runs ask for a sync before every acknowledgement.
        self.loses_power = rng.random() < 0.6
        self.damaged: set[int] = set()
        self.kinds = self._kinds(rng)
        world.network.conditions = Conditions.drawn(rng)
        self.node = world.machine(HOST)
        self.node.disk.make_folder("/mount")
        self.node.disk.sync_folder("/")
        self.producers = [Producer(number) for number in range(PARTITIONS)]

    def _kinds(self, rng: random.Random) -> list[Trouble]:
        if rng.random() < 0.1:
            return []
        kinds = list(ALWAYS)
        if self.loses_power:
            kinds += [Trouble.POWER_CUT, Trouble.CRASH_WITHIN]
        elif not self.is_about_liveness:
            # Not with power cuts: what a failed sync dropped, no later sync and no restart can know of.
            kinds.append(Trouble.DISK_ERRORS)
        if not self.is_about_liveness:
            kinds.append(Trouble.BIT_FLIP)
        return [kind for kind in kinds if rng.random() < 0.5]

    def settings(self) -> dict[str, str]:
        return {
            "node.id": "1",
            "process.roles": "broker,controller",
            "listeners": f"PLAINTEXT://{HOST}:{PORT},CONTROLLER://{HOST}:9093",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@{HOST}:9093",
            "log.dirs": "/mount/data",
        }

    async def script(self) -> None:
        self.world.keep_running(self.node, self.program, may_end_with=(NodeFailedError, OSError))
        for producer in self.producers:
            self.world.machine(f"client-{producer.partition}").boot(self._client(producer))
        nemesis = Nemesis(self.world, [self.node], self.kinds, flip=self.flip)
        await nemesis.rage(RAGE_S)
        nemesis.calm()
        patience_s = PROGRESS_S if self.is_about_liveness else SAFETY_S
        before = [len(producer.acknowledged) for producer in self.producers]
        await self.world.until(
            lambda: all(
                len(producer.acknowledged) > count or self._is_excused(producer)
                for producer, count in zip(self.producers, before, strict=True)
            ),
            timeout_s=patience_s,
            what="an acknowledgement for every producer after faults stopped",
        )
        for producer in self.producers:
            producer.stopping = True
        await self.world.until(
            lambda: all(producer.is_done for producer in self.producers),
            timeout_s=SAFETY_S,
            what="every producer's last acknowledgement",
        )
        reader = self.world.machine("reader")
        await self.world.result(reader, reader.boot(self._read, may_fail=True))

    async def program(self, own: Surroundings) -> None:
        failed: asyncio.Future[None] = own.loop.create_future()

        def on_failure(error: Exception) -> None:
            if not failed.done():
                failed.set_exception(NodeFailedError(str(error)))

        try:
            await start_node(
                BrokerConfig(self.settings()),
                loop=own.loop,
                clock=own.clock,
                disk=own.disk,
                network=own.network,
                rng=own.rng,
                on_failure=on_failure,
            )
        except ApiError as error:
            # A start may fail on a disk that is full or failing just then, and for no other reason.
            if {Trouble.DISK_FULL, Trouble.DISK_ERRORS}.isdisjoint(self.kinds):
                raise
            raise NodeFailedError(str(error)) from error
        await failed

    def _client(self, producer: Producer) -> Program:
        async def run(own: Surroundings) -> None:
            link = Link(own, f"producer-{producer.partition}")
            configs = {"segment.bytes": "1048576", "message.timestamp.after.max.ms": str(10**12)}
            if self.loses_power:
                configs["flush.messages"] = "1"
            await create_topic(link, PARTITIONS, configs)
            await producer.run(link)

        return run

    def _is_excused(self, producer: Producer) -> bool:
        """Damage may cut the log, and then the sequence that follows is refused."""
        is_damaged = producer.partition in self.damaged
        return is_damaged and producer.refusal is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    async def _read(self, own: Surroundings) -> None:
        link = Link(own, "reader", patience_ms=READER_PATIENCE_MS)
        for producer in self.producers:
            is_damaged = producer.partition in self.damaged
            try:
                found = await read_partition(link, producer.partition)
            except DamageSeenError as error:
                if not is_damaged:
                    raise CheckFailedError(f"partition {producer.partition} is damaged: {error}") from error
                continue
            check_partition(producer, found, is_damaged=is_damaged)

    def flip(self, victim: SimulatedMachine, rng: random.Random) -> None:
        """Damage a data partition's file that can be noticed to be damaged."""
        suffix = rng.choice([".log", ".log", ".index", ".timeindex", ".snapshot"])
        paths = [p for p in victim.disk.files() if p.endswith(suffix) and f"/{TOPIC}-" in p]
        if not paths:
            return
        path = rng.choice(paths)
        if suffix != ".log":
            victim.disk.flip_bit(path)
            return
        found = list(batches(bytes(victim.disk.tree.file(path).data)))
        if found:
            start, header = rng.choice(found)
            position = start + rng.choice([at for at in range(header.size) if at not in UNCOVERED])
            victim.disk.flip_bit(path, position)
            self.damaged.add(int(path.split("/")[-2].rpartition("-")[2]))


def check_partition(producer: Producer, found: list[tuple[int, bytes]], *, is_damaged: bool) -> None:
    """The checker: no gap, nothing foreign, nothing twice, nothing out of order, nothing lost."""
    name = f"partition {producer.partition}"
    if producer.refusal is not None and not is_damaged:
        raise CheckFailedError(f"{name}: a producer that did all right was refused: {producer.refusal.name}")
    place = {value: number for number, value in enumerate(producer.sent)}
    numbers = []
    for expected, (offset, value) in enumerate(found):
        if offset != expected:
            raise CheckFailedError(f"{name}: offset {offset} where {expected} should be")
        if value not in place:
            raise CheckFailedError(f"{name}: offset {offset} holds what nobody sent")
        numbers.append(place[value])
    if any(later <= earlier for earlier, later in pairwise(numbers)):
        raise CheckFailedError(f"{name}: values are there twice or out of order")
    if is_damaged:
        return
    there = dict(found)
    for offset, value in producer.acknowledged.items():
        if there.get(offset) != value:
            raise CheckFailedError(f"{name}: what was acknowledged at offset {offset} is lost")
