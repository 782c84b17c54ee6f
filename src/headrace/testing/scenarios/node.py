"""The real node, whole, under everything that can happen to one machine and its connections.

Rules: what was acknowledged is there, once, at its offset, in the order it was sent: after a kill always,
after a power cut where the topic has flush.messages=1. What a consumer has read stays as it was. Nothing is
there that nobody sent. What is damaged is never given out as good. The node comes back by itself. In half
of the runs, every producer is acknowledged within ten seconds of the end of the faults; in the other half
more is broken, and only safety counts.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.node.assembly import start_node
from headrace.records.batch import batches
from headrace.settings.broker_config import BrokerConfig
from headrace.testing.conditions import Conditions
from headrace.testing.disk import VirtualDisk
from headrace.testing.machine import Program, SimulatedMachine, Surroundings
from headrace.testing.nemesis import NETWORK, Nemesis, Trouble
from headrace.testing.scenarios.log import UNCOVERED
from headrace.testing.scenarios.node_clients import HOST, PORT, TOPIC, Link, ScenarioProducer, create_topic
from headrace.testing.scenarios.node_readers import DamageSeenError, LiveConsumer, read_partition
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
    Trouble.RESTART,
    Trouble.PAUSE,
    Trouble.CLOCK_JUMP,
    Trouble.SLOW_DISK,
    Trouble.DISK_FULL,
)
LOG_DIR: Final = "/mount/data"
METADATA: Final = f"{LOG_DIR}/__cluster_metadata-0/"
DERIVED: Final = (".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint", "partition.metadata")


class NodeFailedError(Exception):
    """The node said that it can only be stopped: its supervisor starts another."""


def play(world: World) -> None:
    """One node, a producer for each partition, faults for a while, then a look at everything."""
    world.run(NodeRun(world).script())


class NodeRun:
    """One run: a node, its clients, and what is out to part them."""

    def __init__(self, world: World) -> None:
        self.world = world
        rng = world.rng
        self.is_about_liveness = rng.random() < 0.5
        # A power cut may take what a kill may not: such runs ask for a sync before every acknowledgement.
        self.loses_power = rng.random() < 0.6
        self.damage = Damage()
        self.kinds = self._kinds(rng)
        world.network.conditions = Conditions.drawn(rng)
        self.node = world.machine(HOST)
        self.node.disk.make_folder("/mount")
        self.node.disk.sync_folder("/")
        self.producers = [ScenarioProducer(number) for number in range(PARTITIONS)]
        self.consumer = LiveConsumer(PARTITIONS, self.is_settled)
        self._ask_to_stop: Callable[[], object] = _nothing

    def _kinds(self, rng: random.Random) -> list[Trouble]:
        if rng.random() < 0.1:
            return []
        kinds = list(ALWAYS)
        if self.loses_power:
            kinds += [Trouble.POWER_CUT, Trouble.CRASH_WITHIN]
        if not self.is_about_liveness:
            # Not both: what a failed sync dropped is written again from the recovery point on, and a flipped
            # bit of its checkpoint may have moved that.
            kinds.append(rng.choice([Trouble.DISK_ERRORS, Trouble.BIT_FLIP]))
        return [kind for kind in kinds if rng.random() < 0.5]

    def settings(self) -> dict[str, str]:
        return {
            "node.id": "1",
            "process.roles": "broker,controller",
            "listeners": f"PLAINTEXT://{HOST}:{PORT},CONTROLLER://{HOST}:9093",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@{HOST}:9093",
            "log.dirs": LOG_DIR,
        }

    async def script(self) -> None:
        self.begin()
        nemesis = Nemesis(
            self.world, [self.node], self.kinds, flip=self.damage.flip, stop=lambda _: self._ask_to_stop()
        )
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
        await self.end()

    def begin(self) -> None:
        """Start the node and its clients."""
        self.world.keep_running(self.node, self.program, may_end_with=(NodeFailedError, OSError))
        for producer in self.producers:
            self.world.machine(f"client-{producer.partition}").boot(self._client(producer))
        self.world.machine("consumer").boot(lambda own: self.consumer.run(Link(own, "consumer")))

    async def end(self) -> None:
        """Let the producers finish what they began, then compare everything with everything."""
        for producer in self.producers:
            producer.stopping = True
        await self.world.until(
            lambda: all(producer.is_done for producer in self.producers),
            timeout_s=SAFETY_S,
            what="every producer's last acknowledgement",
        )
        if self.is_about_liveness:
            await self.world.until(
                lambda: all(self.consumer.seen), timeout_s=SAFETY_S, what="something read of every partition"
            )
        self.consumer.stopping = True
        reader = self.world.machine("reader")
        await self.world.result(reader, reader.boot(self._read, may_fail=True))

    async def program(self, own: Surroundings) -> None:
        ending: asyncio.Future[None] = own.loop.create_future()

        def on_failure(error: Exception) -> None:
            if not ending.done():
                ending.set_exception(NodeFailedError(str(error)))

        def stop() -> None:
            if not ending.done():
                ending.set_result(None)

        self._ask_to_stop = partial(own.loop.call_soon, stop)
        starting = own.loop.create_task(
            start_node(
                BrokerConfig(self.settings()),
                loop=own.loop,
                clock=own.clock,
                disk=own.disk,
                network=own.network,
                rng=own.rng,
                on_failure=on_failure,
            )
        )
        # As the real process does: a fault, or somebody who asks, ends a start too.
        await asyncio.wait([starting, ending], return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await starting
            await ending
            return
        try:
            node = starting.result()
        except ApiError as error:
            raise self._disk_is_to_blame(error) from error
        except InvalidBytesError as error:
            # What nothing else tells was damaged: the node says so, and waits for somebody who knows.
            if not self.damage.repair(own.disk):
                raise
            raise NodeFailedError(str(error)) from error
        await ending
        try:
            await node.stop()
        except ApiError as error:
            raise self._disk_is_to_blame(error) from error

    def _disk_is_to_blame(self, error: ApiError) -> Exception:
        """A start or a stop may fail on a disk that is full or failing just then, and for no other reason."""
        if {Trouble.DISK_FULL, Trouble.DISK_ERRORS}.isdisjoint(self.kinds):
            return error
        return NodeFailedError(str(error))

    def _client(self, producer: ScenarioProducer) -> Program:
        async def run(own: Surroundings) -> None:
            link = Link(own, f"producer-{producer.partition}")
            configs = {"segment.bytes": "1048576", "message.timestamp.after.max.ms": str(10**12)}
            if self.loses_power:
                configs["flush.messages"] = "1"
            await create_topic(link, PARTITIONS, configs)
            await producer.run(link)

        return run

    def is_settled(self, partition: int, offset: int) -> bool:
        """Whether what was read at an offset must stay there. It may go with damage; and it can be read
        before it is synced, so a power cut may take it as long as its producer has not heard of it.
        """
        if partition in self.damage.partitions:
            return False
        return not self.loses_power or offset in self.producers[partition].acknowledged

    def _is_excused(self, producer: ScenarioProducer) -> bool:
        """Damage may cut the log, and then the sequence that follows is refused."""
        is_damaged = producer.partition in self.damage.partitions
        return is_damaged and producer.refusal is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    async def _read(self, own: Surroundings) -> None:
        link = Link(own, "reader", patience_ms=READER_PATIENCE_MS)
        for producer in self.producers:
            is_damaged = producer.partition in self.damage.partitions
            try:
                found = await read_partition(link, producer.partition)
            except DamageSeenError as error:
                if not is_damaged:
                    raise CheckFailedError(f"partition {producer.partition} is damaged: {error}") from error
                continue
            check_partition(producer, found, is_damaged=is_damaged)
            seen = self.consumer.seen[producer.partition]
            settled = {at: value for at, value in seen.items() if self.is_settled(producer.partition, at)}
            check_seen(producer.partition, settled, found)


def check_partition(producer: ScenarioProducer, found: list[tuple[int, bytes]], *, is_damaged: bool) -> None:
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


def check_seen(partition: int, seen: dict[int, bytes], found: list[tuple[int, bytes]]) -> None:
    """What a consumer read while it was written is what is there in the end."""
    there = dict(found)
    for offset, value in seen.items():
        if there.get(offset) != value:
            raise CheckFailedError(f"partition {partition}: what was read at offset {offset} is lost")


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class _Flip:
    path: str
    position: int
    before: int
    after: int


class Damage:
    """Bits that flip in a node's files in one run, and what may follow from each.

    A batch of a partition may be lost with what lies behind it: that partition is excused from then on, and
    only that one. Whatever the log can be had again from (indexes, snapshots of producers, checkpoints, a
    partition's topic id) may lose nothing at all. The metadata log has no second source: the node may refuse
    to start, in which case somebody puts the bit right, but it must not come up with other content.
    """

    def __init__(self) -> None:
        self.partitions: set[int] = set()
        self._repairable: list[_Flip] = []

    def flip(self, victim: SimulatedMachine, rng: random.Random) -> None:
        """Flip one bit in a file of a kind that is chosen first: there are many more of some than of
        others."""
        kind = rng.choice([self._flip_batch, self._flip_batch, self._flip_derived, self._flip_source])
        kind(victim.disk, rng)

    def _flip_batch(self, disk: VirtualDisk, rng: random.Random) -> None:
        paths = [path for path in disk.files() if path.endswith(".log") and f"/{TOPIC}-" in path]
        if not paths:
            return
        path = rng.choice(paths)
        found = list(batches(bytes(disk.tree.file(path).data)))
        if found:
            start, header = rng.choice(found)
            position = start + rng.choice([at for at in range(header.size) if at not in UNCOVERED])
            disk.flip_bit(path, position)
            self.partitions.add(int(path.split("/")[-2].rpartition("-")[2]))

    def _flip_derived(self, disk: VirtualDisk, rng: random.Random) -> None:
        suffix = rng.choice([*DERIVED, "-offset-checkpoint"])
        paths = [
            path
            for path in disk.files()
            if path.endswith(suffix) and (f"/{TOPIC}-" in path or path.count("/") == LOG_DIR.count("/") + 1)
        ]
        if paths:
            disk.flip_bit(rng.choice(paths))

    def _flip_source(self, disk: VirtualDisk, rng: random.Random) -> None:
        """One at a time: several flips in one batch look like a batch that was never written whole."""
        if self._repairable:
            return
        paths = [
            path
            for path in disk.files()
            if path.startswith(METADATA) and path.endswith((".log", ".checkpoint"))
        ]
        path = rng.choice(paths) if paths else ""
        if path and disk.tree.file(path).data:
            before = bytes(disk.tree.file(path).data)
            disk.flip_bit(path)
            after = bytes(disk.tree.file(path).data)
            at = next(at for at, byte in enumerate(after) if byte != before[at])
            self._repairable.append(_Flip(path, at, before[at], after[at]))

    def repair(self, disk: VirtualDisk) -> bool:
        """Put right what the node refused to start with; False where there is nothing to put right."""
        flips, self._repairable = self._repairable, []
        for flip in reversed(flips):
            if flip.path in disk.files():
                data = disk.tree.file(flip.path).data
                if flip.position < len(data) and data[flip.position] == flip.after:
                    data[flip.position] = flip.before
        return bool(flips)
