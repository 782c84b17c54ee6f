"""A random walk over two partitions: produce, fetch, look up, delete. The same steps for every broker."""

import random
from dataclasses import dataclass, field
from typing import Any

from tests.server.beside_kafka.delete_records import delete
from tests.server.beside_kafka.describe_producers import describe
from tests.server.beside_kafka.fetch import fetch
from tests.server.beside_kafka.list_offsets import find
from tests.server.beside_kafka.offset_for_leader_epoch import end_of
from tests.server.beside_kafka.produce import produce
from tests.server.beside_kafka.talk import RECORD_MS, Talk, batch

SEEDS = 5
STEPS = 60
LATEST, EARLIEST, LARGEST = -1, -2, -3
SETTINGS: tuple[dict[str, str], ...] = (
    {},
    {"segment_bytes": "1048576", "index_interval_bytes": "100"},
    {"max_message_bytes": "3000"},
)


async def script(talk: Talk) -> None:
    for seed in range(SEEDS):
        talk.title(f"walk {seed}")
        rng = random.Random(seed)
        name = f"walk{seed}"
        topic_id = await talk.topic(name, 2, **rng.choice(SETTINGS))
        walk = Walk(talk, rng, talk.name(name), topic_id)
        for number in range(STEPS):
            await walk.step(number)


@dataclass
class Producer:
    """How far an idempotent producer came, as a client would remember it."""

    epoch: int = 0
    next_sequence: int = 0
    last: tuple[int, int] = (0, 1)  # sequence and count of its last batch


@dataclass
class Walk:
    """One topic, what is known of its ends, its producers, and one fetch session."""

    talk: Talk
    rng: random.Random
    topic: str
    topic_id: bytes
    ends: list[int] = field(default_factory=lambda: [0, 0])
    producers: dict[tuple[int, int], Producer] = field(default_factory=dict)
    session: tuple[int, int] = (0, 0)
    has_deleted: bool = False

    async def step(self, number: int) -> None:
        acts = (self.produce, self.produce_again, self.fetch, self.find, self.delete, self.ask, self.go_on)
        partition = self.rng.choice((0, 0, 0, 1))
        (act,) = self.rng.choices(acts, (8, 5, 8, 6, 1, 2, 3))
        await act(number, partition)
        for index in (0, 1):
            reply = await (await self.talk.begin(find(self.topic, LATEST, partition=index), 11))
            self.ends[index] = reply.topics[0].partitions[0].offset

    def offset(self, partition: int) -> int:
        end = self.ends[partition]
        return self.rng.choice((self.rng.randint(0, max(end, 1)), end, end + 1, 0))

    async def produce(self, number: int, partition: int) -> None:
        choice = self.rng.choice
        count, size, codec = (
            choice((1, 2, 5, 30)),
            choice((0, 1, 10, 100, 2000)),
            choice((0, 0, 0, 1, 2, 3, 4)),
        )
        at_ms = RECORD_MS + self.rng.randint(-5000, 5000)
        records = batch(count, size=size, codec=codec, at_ms=at_ms, step_ms=choice((0, 1, -1, 7)))
        await self.send(f"{number} produce {count} of {size} bytes", partition, records)

    async def produce_again(self, number: int, partition: int) -> None:
        """An idempotent producer that goes on, repeats itself, leaves a gap, or comes back fenced or anew."""
        producer_id = self.rng.choice((5, 6))
        known = self.producers.setdefault((partition, producer_id), Producer())
        epoch, sequence, count = known.epoch, known.next_sequence, self.rng.choice((1, 2, 3))
        chance = self.rng.random()
        if chance < 0.1:
            sequence = max(0, sequence + self.rng.choice((-1, 1, 5)))
        elif chance < 0.2:
            epoch, sequence = epoch + 1, 0
        elif chance < 0.25:
            epoch = max(0, epoch - 1)
        elif chance < 0.4:
            sequence, count = known.last
        records = batch(count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
        label = f"{number} producer {producer_id}, epoch {epoch}, {count} from sequence {sequence}"
        reply = await self.send(label, partition, records)
        if reply.responses[0].partition_responses[0].error_code == 0:
            fresh = epoch != known.epoch
            following = max(0 if fresh else known.next_sequence, sequence + count)
            self.producers[partition, producer_id] = Producer(epoch, following, (sequence, count))

    async def send(self, label: str, partition: int, records: bytearray) -> Any:
        request = produce(
            self.topic,
            records,
            topic_id=self.topic_id,
            acks=self.rng.choice((1, -1)),
            partitions=[partition],
        )
        asked = await self.talk.begin(request, 13)
        result = (await asked).responses[0].partition_responses[0]
        result.log_append_time_ms = -1  # of a duplicate Kafka tells the batch's own time
        return await self.talk.hear(label, asked)

    async def fetch(self, number: int, partition: int) -> None:
        choice, offset = self.rng.choice, self.offset(partition)
        request = fetch(
            self.topic,
            offset,
            topic_id=self.topic_id,
            partitions=choice(((partition,), (0, 1), (1, 0))),
            partition_max_bytes=choice((1, 100, 500, 5000, 10**6)),
            max_bytes=choice((1, 300, 3000, 10**6)),
            isolation_level=choice((0, 1)),
            session_epoch=-1,
            last_fetched_epoch=choice((-1, -1, 0)),
        )
        await self.talk.ask(f"{number} fetch from {offset}", request, choice((12, 18)))

    async def find(self, number: int, partition: int) -> None:
        place = self.rng.choice((LATEST, EARLIEST, LARGEST, 0))
        if place == LARGEST and self.has_deleted:
            place = EARLIEST  # Kafka may tell of a record that was deleted
        late_ms = self.rng.randint(-6000, 6000)
        request = find(self.topic, place or RECORD_MS + late_ms, partition=partition)
        await self.talk.ask(f"{number} find {place or late_ms} in {partition}", request, 11)

    async def delete(self, number: int, partition: int) -> None:
        self.has_deleted = True
        offset = self.offset(partition)
        await self.talk.ask(f"{number} delete below {offset}", delete(self.topic, (partition, offset)), 2)

    async def ask(self, number: int, partition: int) -> None:
        await self.talk.ask(f"{number} producers", describe(self.topic, partition), 0, unordered=True)
        await self.talk.ask(f"{number} epoch 0", end_of(self.topic, 0, partition=partition), 4)

    async def go_on(self, number: int, partition: int) -> None:
        """A fetch within the session."""
        session_id, epoch = self.session
        partitions = self.rng.choice(((), (0,), (1,), (0, 1))) if session_id else (0, 1)
        request = fetch(
            self.topic,
            self.offset(partition),
            topic_id=self.topic_id,
            partitions=partitions,
            partition_max_bytes=500,
            max_bytes=1000,
            session_id=session_id,
            session_epoch=epoch,
        )
        reply = await self.talk.ask(f"{number} session", request, 18)
        self.session = (reply.session_id, epoch + 1) if reply.error_code == 0 else (0, 0)
