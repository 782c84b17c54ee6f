"""The clients of a simulated cluster: our own, whole, each on a machine of its own.

Writers are idempotent producers with acks=all that never give up: whatever they are told to be written is a
promise, and being refused breaks a rule. Members share a group, commit what they have read, and are killed
now and then: what one of them begins with is neither behind what the group was told to be committed nor
beyond what anybody tried to commit. An operator makes and deletes topics and moves leaders. A reader reads
everything once, in the end.
"""

import asyncio
import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

from headrace.base.ids import TopicPartition
from headrace.clients import (
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    ConsumerRecord,
    Delivery,
    RebalanceListener,
)
from headrace.clients.errors import ClientError, UnreachableError
from headrace.clients.internals.environment import ClientEnvironment
from headrace.testing.machine import Surroundings
from headrace.testing.scenarios.committed_records import CommittedRecords
from headrace.testing.world import CheckFailedError, World

TOPIC: Final = "events"
GROUP: Final = "readers"
FOREVER_MS: Final = 2_000_000_000
# A writer waits while so many of its records are undecided: on a slow network it would write in seconds what
# takes minutes to deliver.
UNDECIDED_MAX: Final = 30
# A scratch topic is one of so many names, so that some are made again.
SCRATCH_NAMES: Final = 3

Ledger = dict[TopicPartition, CommittedRecords]


def surroundings(own: Surroundings) -> ClientEnvironment:
    return ClientEnvironment(own.loop, own.network, own.clock, own.rng)


class Writer:
    """Writes numbered values to all partitions until it is told to stop; sees every one through."""

    def __init__(self, world: World, number: int, ledger: Ledger, settings: dict[str, Any]) -> None:
        self.world = world
        self.name = f"writer{number}"
        self.ledger = ledger
        self.stopping = False
        self.is_done = False
        self.key_of: Callable[[bytes], bytes | None] | None = None
        """The key of a value; none has one without."""
        self.acknowledged: dict[TopicPartition, dict[int, int]] = {where: {} for where in ledger}
        """Of each value, by its number: the offset."""
        self._sent = dict.fromkeys(ledger, 0)
        self._undecided = 0
        self._settings = settings

    async def run(self, own: Surroundings) -> None:
        rng = own.rng
        async with AsyncProducer(self._settings, environment=surroundings(own)) as producer:
            while not self.stopping:
                for _ in range(rng.randint(1, 5)):
                    if self._undecided < UNDECIDED_MAX:
                        await self._write(producer, rng)
                await asyncio.sleep(rng.random() * 0.2)
            await producer.flush()
        self.is_done = True

    async def _write(self, producer: AsyncProducer, rng: random.Random) -> None:
        where = rng.choice(list(self.ledger))
        number = self._sent[where]
        self._sent[where] += 1
        value = b"%s/%d/%d/" % (self.name.encode(), where.partition, number)
        value += rng.randbytes(rng.choice([1, 100, 900]))
        while True:
            try:
                key = None if self.key_of is None else self.key_of(value)
                delivery = await producer.send(where.topic, value, key=key, partition=where.partition)
                break
            except UnreachableError as error:
                # Before anything worked a producer says so at once; nothing was taken.
                self.world.note(f"{self.name} hears: {error}")
                await asyncio.sleep(0.1)
        self._undecided += 1
        delivery.add_done_callback(lambda done: self._decided(done, where, number, value))

    def _decided(self, delivery: Delivery, where: TopicPartition, number: int, value: bytes) -> None:
        self._undecided -= 1
        error = delivery.exception()
        try:
            if error is not None:
                raise CheckFailedError(f"{where}: a producer that never gives up was refused: {error}")
            offset = delivery.result().offset
            self.world.note(f"{self.name} is told that {where} has its number {number} at {offset}")
            self.ledger[where].acknowledge(offset, [value])
            self.acknowledged[where][number] = offset
        except CheckFailedError as broken:
            self.world.fail(broken)

    def check_order(self) -> None:
        """In each partition: what was sent later lies behind what was sent before it."""
        for where, offsets in self.acknowledged.items():
            in_order = [offset for _, offset in sorted(offsets.items())]
            if any(later <= earlier for earlier, later in pairwise(in_order)):
                raise CheckFailedError(f"{where}: the records of {self.name} are not in their order")


class Group:
    """What a group was told to be committed, and what its members tried to commit."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.committed = dict.fromkeys(ledger, 0)
        self.attempted = dict.fromkeys(ledger, 0)
        self.read_to = dict.fromkeys(ledger, 0)


class GroupMember(RebalanceListener):
    """One place in the group: a consumer, and another one in its place whenever it is killed."""

    def __init__(self, world: World, group: Group, settings: dict[str, Any]) -> None:
        self.world = world
        self.group = group
        self._settings = settings
        self.owned: dict[TopicPartition, int | None] = {}
        """The next offset of each partition that is read; None before its first record."""
        self._floors: dict[TopicPartition, int] = {}

    async def run(self, own: Surroundings) -> None:
        self.owned.clear()
        try:
            await self._read(own)
        except CheckFailedError as error:
            self.world.fail(error)

    async def _read(self, own: Surroundings) -> None:
        rng = own.rng
        consumer = AsyncConsumer(self._settings, environment=surroundings(own))
        consumer.subscribe([TOPIC], listener=self)
        while True:
            for record in await consumer.poll(rng.choice([0.1, 0.5])):
                self._take(record)
            if rng.random() < 0.3:
                await self._commit(consumer, own)

    async def _commit(self, consumer: AsyncConsumer, own: Surroundings) -> None:
        places = {where: offset for where, offset in self.owned.items() if offset is not None}
        if not places:
            return
        for where, offset in places.items():
            self.group.attempted[where] = max(self.group.attempted[where], offset)
        try:
            await consumer.commit(places)
        except ClientError as error:
            self.world.note(f"{own.network.name} could not commit: {error}")
            return
        self.world.note(f"{own.network.name} has committed {[*places.values()]}")
        for where, offset in places.items():
            self.group.committed[where] = max(self.group.committed[where], offset)

    def on_assigned(self, partitions: list[TopicPartition]) -> None:
        for where in partitions:
            self.owned[where] = None
            self._floors[where] = self.group.committed[where]

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        for where in partitions:
            self.owned.pop(where, None)

    def _take(self, record: ConsumerRecord) -> None:
        where = TopicPartition(record.topic, record.partition)
        expected = self.owned[where]
        if expected is None:
            lowest, highest = self._floors[where], self.group.attempted[where]
            if not lowest <= record.offset <= max(lowest, highest):
                raise CheckFailedError(
                    f"{where}: a member begins at {record.offset}, committed was {lowest}, {highest} at most"
                )
        elif record.offset != expected:
            raise CheckFailedError(f"{where}: a member read {record.offset} after {expected - 1}")
        if self.group.ledger[where].committed.get(record.offset) != record.value:
            raise CheckFailedError(f"{where}: a member read what is not committed at {record.offset}")
        self.owned[where] = record.offset + 1
        self.group.read_to[where] = max(self.group.read_to[where], record.offset + 1)


class Operator:
    """Makes and deletes topics, and has first replicas lead again. Is told no, and that is that: nothing is
    asked for twice, because a broker that could not answer may still do what it was asked for first, after
    the topic of that name has gone and come again (as with Apache Kafka).
    """

    def __init__(self, world: World, settings: dict[str, Any]) -> None:
        self.world = world
        self._settings = settings | {"default.api.timeout.ms": 1}
        self._names = [f"scratch{number}" for number in range(SCRATCH_NAMES)]
        self._next_number = SCRATCH_NAMES
        self.stopping = False
        self.is_done = False
        self.there: dict[str, bool | None] = {}
        """Whether a topic must be there; None where nobody knows."""

    async def run(self, own: Surroundings) -> None:
        rng = own.rng
        async with AsyncAdmin(self._settings, environment=surroundings(own)) as admin:
            while not self.stopping:
                await asyncio.sleep(rng.expovariate(1.0))
                try:
                    await self._act(admin, rng)
                except ClientError as error:
                    self.world.note(f"the operator hears: {error}")
        self.is_done = True

    async def _act(self, admin: AsyncAdmin, rng: random.Random) -> None:
        name = self._draw_name(rng)
        if rng.random() < 0.4:
            await admin.elect_leaders(None)
        elif self.there.get(name):
            self.there[name] = None
            await admin.delete_topics([name])
            self.there[name] = False
        else:
            self.there[name] = None
            await admin.create_topic(name, partitions=1, replication_factor=3)
            self.there[name] = True
        self.world.note(f"the operator is done with {name}: {self.there.get(name)}")

    def _draw_name(self, rng: random.Random) -> str:
        """One of a few; in the place of one about which nobody knows, a new one."""
        place = rng.randrange(SCRATCH_NAMES)
        if self.there.get(self._names[place], False) is None:
            self._names[place] = f"scratch{self._next_number}"
            self._next_number += 1
        return self._names[place]

    def is_known_to(self, topics: set[str]) -> bool:
        return all(expected is None or (name in topics) is expected for name, expected in self.there.items())


class Reader:
    """Reads everything once, from the start."""

    def __init__(self, ledger: Ledger, settings: dict[str, Any]) -> None:
        self.ledger = ledger
        self._settings = settings
        self.found: dict[TopicPartition, list[tuple[int, bytes]]] = {where: [] for where in ledger}

    async def run(self, own: Surroundings) -> None:
        async with AsyncConsumer(self._settings, environment=surroundings(own)) as consumer:
            consumer.assign(self.ledger)
            ends = await consumer.end_offsets(self.ledger)
            for where, end in ends.items():
                if end < self.ledger[where].end:
                    raise CheckFailedError(f"{where} ends at {end}, acknowledged is {self.ledger[where].end}")
            while any(len(self.found[where]) < end for where, end in ends.items()):
                for record in await consumer.poll(1.0):
                    where = TopicPartition(record.topic, record.partition)
                    self.found[where].append((record.offset, record.value))
        for where, committed_records in self.ledger.items():
            check_reading(where, self.found[where], committed_records)


def check_reading(
    where: TopicPartition, found: list[tuple[int, bytes]], committed_records: CommittedRecords
) -> None:
    """The checker: every offset once and in order, nothing foreign, nothing twice, nothing lost."""
    numbers: dict[bytes, int] = {}
    for expected, (offset, value) in enumerate(found):
        if offset != expected:
            raise CheckFailedError(f"{where}: offset {offset} where {expected} should be")
        if committed_records.committed.get(offset) != value:
            raise CheckFailedError(f"{where}: offset {offset} holds what was not committed there")
        writer, _, number, _ = value.split(b"/", 3)
        if int(number) <= numbers.get(writer, -1):
            raise CheckFailedError(f"{where}: {value[:20]!r} is there twice or out of order")
        numbers[writer] = int(number)
    there = dict(found)
    for offset, value in committed_records.acknowledged:
        if there.get(offset) != value:
            raise CheckFailedError(f"{where}: what was acknowledged at offset {offset} is lost")
