"""A member of a simulated share group: our own share consumer, which accepts most records, releases, rejects
or keeps some for too long, and sends its answers alone or with the next fetch.
"""

import asyncio
import random
from collections.abc import Mapping
from typing import Any

from headrace.base.ids import TopicPartition
from headrace.clients import AcknowledgeType, AsyncShareConsumer, ShareRecord
from headrace.clients.errors import ClientError
from headrace.testing.machine import Surroundings
from headrace.testing.scenarios.cluster_clients import TOPIC, surroundings
from headrace.testing.scenarios.share_rules import ShareRules
from headrace.testing.world import CheckFailedError, World


class ShareMember:
    """One place in the group: a consumer, and another one in its place whenever it is killed."""

    def __init__(self, world: World, number: int, rules: ShareRules, settings: dict[str, Any]) -> None:
        self.world = world
        self.rules = rules
        self.is_steady = False
        """From then on it accepts everything at once."""
        self._number = number
        self._lives = 0
        self._member_id = ""
        self._settings = settings | {"share.acknowledgement.mode": "explicit"}
        self._untold: dict[TopicPartition, dict[int, AcknowledgeType]] = {}
        """What was said of records, until it is known whether that was taken."""

    @property
    def name(self) -> str:
        """One for each life: who comes after a kill is somebody else."""
        return f"member{self._number}.{self._lives}"

    async def run(self, own: Surroundings) -> None:
        self._lives += 1
        self._untold.clear()
        consumer = AsyncShareConsumer(self._settings, environment=surroundings(own))
        consumer.subscribe([TOPIC])
        consumer.on_commit(self._told)
        self._member_id = consumer.core.membership.member_id
        while True:
            try:
                await self._round(consumer, own.rng)
            except ClientError as error:
                self.world.note(f"{self.name} hears: {error}")
                await asyncio.sleep(0.1)
            except CheckFailedError as error:
                self.world.fail(error)

    async def _round(self, consumer: AsyncShareConsumer, rng: random.Random) -> None:
        rows = await consumer.poll(rng.choice([0.1, 0.5]), max_records=rng.choice([1, 5, 100]))
        for row in rows:
            self.rules.deliver(self.name, _where(row), row.offset, row.delivery_count)
        await asyncio.sleep(0)  # fetches that have begun have taken what was said before
        if self._untold:
            await self._commit(consumer)
        if rows and not self.is_steady:
            await self._work(consumer, rows, rng)
        for row in rows:
            self._answer(consumer, row, self._draw(rng))
        if rows and rng.random() < 0.6:
            await self._commit(consumer)

    async def _work(self, consumer: AsyncShareConsumer, rows: list[ShareRecord], rng: random.Random) -> None:
        """Take a while, now and then longer than records are held; ask for more time, or do not."""
        if rng.random() < 0.1:
            for row in rows:
                self._answer(consumer, row, AcknowledgeType.RENEW)
            await self._commit(consumer)
        await asyncio.sleep(rng.choice([0.0, 0.0, 0.0, 0.05, 0.05, 0.5, 3.0]))

    def _draw(self, rng: random.Random) -> AcknowledgeType:
        if self.is_steady:
            return AcknowledgeType.ACCEPT
        kinds = [AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT]
        return rng.choices(kinds, [80, 17, 3])[0]

    def _answer(self, consumer: AsyncShareConsumer, row: ShareRecord, kind: AcknowledgeType) -> None:
        consumer.acknowledge(row, kind)
        self._untold.setdefault(_where(row), {})[row.offset] = kind

    async def _commit(self, consumer: AsyncShareConsumer) -> None:
        """Have everything sent, and hear of it."""
        await consumer.commit()
        if self._untold:
            raise CheckFailedError(f"{self.name} never hears what became of {self._untold}")

    def _told(self, outcome: Mapping[TopicPartition, ClientError | None]) -> None:
        for where, error in outcome.items():
            answers = self._untold.pop(where, {})
            accepted = [offset for offset, kind in answers.items() if kind is AcknowledgeType.ACCEPT]
            if error is not None:
                self.world.note(f"{self.name}: {where} takes no answer for {[*answers]}: {error}")
                continue
            self.world.note(f"{self.name}: {where} has {accepted} accepted")
            try:
                self.rules.accept(self.name, self._member_id, where, accepted)
            except CheckFailedError as broken:
                self.world.fail(broken)


def _where(row: ShareRecord) -> TopicPartition:
    return TopicPartition(row.topic, row.partition)
