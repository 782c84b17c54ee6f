"""Somebody who reads tiered topics through the brokers, from their starts, again and again, while everything
breaks; and once more, all of it, when nothing does.

What is read at an offset is never another thing later: whichever tier it comes from, whoever leads. No offset
is left out within a round, except where the log's start has moved past it. Where a log is said to start it
can be read, unless it starts later by then: whoever leads since. In the last round everything that was
acknowledged comes, at its offset.
"""

import asyncio
import random
from collections.abc import Mapping
from typing import Any, Final

from headrace.base.ids import TopicPartition
from headrace.clients.consuming.async_face import AsyncConsumer
from headrace.clients.errors import ClientError, NoOffsetError
from headrace.testing.machine import Surroundings
from headrace.testing.scenarios.cluster_clients import surroundings
from headrace.testing.scenarios.replica_promises import Promises
from headrace.testing.world import CheckFailedError, World

POLL_S: Final = 0.5
PAUSE_S: Final = (0.5, 4.0)


class Wanderer:
    """`whole` are the topics whose logs start at 0 for ever."""

    name: Final = "wanderer"

    def __init__(
        self,
        world: World,
        ledger: Mapping[TopicPartition, Promises],
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
                async with AsyncConsumer(settings, world=surroundings(own)) as consumer:
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
        async with AsyncConsumer(settings, world=surroundings(own)) as consumer:
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
        for where, promises in self._ledger.items():
            start = min(found[where], default=promises.end)
            for offset, value in promises.acknowledged:
                if offset >= start and found[where].get(offset) != value:
                    raise CheckFailedError(f"{where}: no client reads what was acknowledged at {offset}")
            self._world.note(f"{where}: {len(found[where])} records were read, from {start}")
