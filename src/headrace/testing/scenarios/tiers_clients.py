"""The clients of the scenario `tiers`: one that reads everything again and again, one that writes keys.

The reader goes through the brokers, from the topics' starts, while everything breaks; and once more, all of
it, when nothing does. What is read at an offset is never another thing later: whichever tier it comes from,
whoever leads. No offset is left out within a round, except where the log's start has moved past it. Where a
log is said to start it can be read, unless it starts later by then: whoever leads since. In the last round
everything that was acknowledged comes, at its offset.

The writer's values have a number that rises, and some writes delete their key. What counts is the last write
of a key that was acknowledged: in the end that one is found, or a later one that was sent; and a key that was
deleted last is not found with an earlier value.
"""

import asyncio
import random
from collections.abc import Iterable, Mapping
from typing import Any, Final

from headrace.base.ids import TopicPartition
from headrace.clients import AsyncConsumer, AsyncProducer, Delivery
from headrace.clients.errors import ClientError, NoOffsetError, UnreachableError
from headrace.testing.machine import Surroundings
from headrace.testing.scenarios.cluster_clients import surroundings
from headrace.testing.scenarios.committed_records import CommittedRecords
from headrace.testing.world import CheckFailedError, World

POLL_S: Final = 0.5
PAUSE_S: Final = (0.5, 4.0)
KEYS: Final = 8
DELETES: Final = 0.2


class Wanderer:
    """`whole` are the topics whose logs start at 0 for ever."""

    name: Final = "wanderer"

    def __init__(
        self,
        world: World,
        ledger: Mapping[TopicPartition, CommittedRecords],
        settings: dict[str, Any],
        *,
        whole: frozenset[str],
    ) -> None:
        self._world = world
        self._ledger = ledger
        self._settings = settings | {"auto.offset.reset": "earliest"}
        self._whole = whole
        self._seen: dict[tuple[TopicPartition, int], bytes | None] = {}
        self._next: dict[TopicPartition, int] = {}
        self.is_last_round = False
        self.is_done = False

    async def run(self, own: Surroundings) -> None:
        while not self.is_done:
            settings = self._settings | {
                "isolation.level": own.rng.choice(["read_committed", "read_uncommitted"]),
                "max.partition.fetch.bytes": own.rng.choice([1_000, 100_000]),
            }
            is_last = self.is_last_round
            try:
                await self._look_at_start(own)
                async with AsyncConsumer(settings, environment=surroundings(own)) as consumer:
                    await self._go_round(consumer, own.rng, is_last=is_last)
                self.is_done = is_last
            except ClientError as error:
                self._world.note(f"the wanderer hears: {error}")
            if not self.is_last_round:
                await asyncio.sleep(own.rng.uniform(*PAUSE_S))

    async def _look_at_start(self, own: Surroundings) -> None:
        """Read one partition from where it is said to start."""
        where = own.rng.choice(list(self._ledger))
        settings = self._settings | {"auto.offset.reset": "none"}
        async with AsyncConsumer(settings, environment=surroundings(own)) as consumer:
            start = (await consumer.beginning_offsets([where]))[where]
            consumer.assign([where])
            consumer.seek(where, start)
            try:
                await consumer.poll(POLL_S)
            except NoOffsetError:
                later = (await consumer.beginning_offsets([where]))[where]
                if later <= start:
                    raise CheckFailedError(f"{where}: starts at {start}, where nobody can read it") from None

    async def _go_round(self, consumer: AsyncConsumer, rng: random.Random, *, is_last: bool) -> None:
        """From the starts to the ends, or until the last round is due."""
        consumer.assign(self._ledger)
        consumer.seek_to_beginning(*self._ledger)
        self._next = {where: 0 for where in self._ledger if where.topic in self._whole}
        ends = await consumer.end_offsets(self._ledger)
        found: dict[TopicPartition, dict[int, bytes | None]] = {where: {} for where in self._ledger}
        while self.is_last_round == is_last:
            for record in await consumer.poll(POLL_S):
                where = TopicPartition(record.topic, record.partition)
                self._take(where, record.offset, record.value)
                found[where][record.offset] = record.value
            positions = consumer.positions()
            if all(positions.get(where, 0) >= end for where, end in ends.items()):
                break
        if is_last:
            self._check_all(found)

    def _take(self, where: TopicPartition, offset: int, value: bytes | None) -> None:
        expected = self._next.get(where)
        if expected is not None and (offset < expected or (offset > expected and where.topic in self._whole)):
            raise CheckFailedError(f"{where}: offset {offset} was read where {expected} should be")
        self._next[where] = offset + 1
        if self._seen.setdefault((where, offset), value) != value:
            raise CheckFailedError(f"{where}: offset {offset} was read as two values")

    def _check_all(self, found: Mapping[TopicPartition, Mapping[int, bytes | None]]) -> None:
        for where, committed_records in self._ledger.items():
            start = min(found[where], default=committed_records.end)
            for offset, value in committed_records.acknowledged:
                if offset >= start and found[where].get(offset) != value:
                    raise CheckFailedError(f"{where}: no client reads what was acknowledged at {offset}")
            self._world.note(f"{where}: {len(found[where])} records were read, from {start}")


class KeyWriter:
    """Writes until it is told to stop; sees every write through."""

    def __init__(self, world: World, topic: str, settings: dict[str, Any]) -> None:
        self.world = world
        self.topic = topic
        self.stopping = False
        self.is_done = False
        self._settings = settings
        self._sent: dict[bytes, list[bytes | None]] = {}
        self._acknowledged: dict[bytes, int] = {}

    async def run(self, own: Surroundings) -> None:
        rng = own.rng
        async with AsyncProducer(self._settings, environment=surroundings(own)) as producer:
            while not self.stopping:
                for _ in range(rng.randint(1, 5)):
                    await self._write(producer, rng)
                await asyncio.sleep(rng.random() * 0.2)
            await producer.flush()
        self.is_done = True

    async def _write(self, producer: AsyncProducer, rng: random.Random) -> None:
        key = b"key%d" % rng.randrange(KEYS)
        history = self._sent.setdefault(key, [])
        number = len(history)
        deletes = rng.random() < DELETES
        value = None if deletes else b"%d/" % number + rng.randbytes(rng.choice([10, 400]))
        history.append(value)
        while True:
            try:
                delivery = await producer.send(self.topic, value, key=key, partition=0)
                break
            except UnreachableError as error:
                self.world.note(f"the writer of keys hears: {error}")
                await asyncio.sleep(0.1)
        delivery.add_done_callback(lambda done: self._decided(done, key, number))

    def _decided(self, delivery: Delivery, key: bytes, number: int) -> None:
        error = delivery.exception()
        if error is not None:
            self.world.fail(CheckFailedError(f"{self.topic}: the writer of keys was refused: {error}"))
        self._acknowledged[key] = max(self._acknowledged.get(key, -1), number)

    def check(self, found: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """`found` are all records, in the order of their offsets."""
        last = {key: value for key, value in found if key is not None}
        for key, number in self._acknowledged.items():
            expected = self._sent[key][number:]
            if last.get(key) not in expected:
                raise CheckFailedError(
                    f"{self.topic}: {key!r} is {str(last.get(key))[:20]}, acknowledged was number {number}"
                )
