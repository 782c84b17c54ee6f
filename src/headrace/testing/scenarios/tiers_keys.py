"""A writer of keys for a compacted topic, and what must be found of each in the end: its last value.

Every value has a number that rises, and some writes delete their key. What counts is the last write of a key
that was acknowledged: in the end that one is found, or a later one that was sent; and a key that was deleted
last is not found with an earlier value.
"""

import asyncio
import random
from collections.abc import Iterable
from typing import Any, Final

from headrace.clients.errors import UnreachableError
from headrace.clients.producing.batch import Delivery
from headrace.clients.producing.face import AsyncProducer
from headrace.testing.machine import Surroundings
from headrace.testing.scenarios.cluster_clients import surroundings
from headrace.testing.world import CheckFailedError, World

KEYS: Final = 8
DELETES: Final = 0.2


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
        async with AsyncProducer(self._settings, world=surroundings(own)) as producer:
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
