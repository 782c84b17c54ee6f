"""Our own clients in a simulated world, with the real node: no sockets, no files, no waiting.

with ClientWorld() as world:
    async def script():
        await world.start()
        await world.create_topic("t", 3)
        async with world.producer(linger_ms=0) as producer:
            ...
    world.run(script())
"""

from collections.abc import Iterable
from typing import Any

from headrace.base.ids import TopicPartition
from headrace.clients import AsyncConsumer, AsyncProducer, ConsumerRecord
from headrace.clients.internals.environment import ClientEnvironment
from headrace.records.batch import Record, batches, read_records
from tests.server.node_world import PORT, NodeWorld


class ClientWorld(NodeWorld):
    """A node, and clients of it on the driver's loop."""

    clients = 0

    def surroundings(self) -> ClientEnvironment:
        """Of one more client, with chance of its own."""
        self.clients += 1
        rng = self.world.scheduler.random_for(f"client/{self.clients}")
        return ClientEnvironment(self.world.driver, self.network_of("client"), self.machine.clock, rng)

    def producer(self, **settings: Any) -> AsyncProducer:
        return AsyncProducer(
            {"bootstrap.servers": f"node:{PORT}"}, environment=self.surroundings(), **settings
        )

    def consumer(self, **settings: Any) -> AsyncConsumer:
        return AsyncConsumer(
            {"bootstrap.servers": f"node:{PORT}"}, environment=self.surroundings(), **settings
        )

    def cut_all(self) -> None:
        """Reset every connection."""
        for stream in self.world.network.connections("node", "client"):
            self.world.network.cut(stream)

    def partition_off(self) -> None:
        self.world.network.partition(["node"], ["client"])

    def heal(self) -> None:
        self.world.network.heal()

    def values(self, topic: str, index: int = 0) -> list[bytes | None]:
        """All values in a partition's log, in order."""
        return [record.value for record in self.records(topic, index)]

    def keys(self, topic: str, index: int = 0) -> list[bytes | None]:
        """All keys in a partition's log, in order."""
        return [record.key for record in self.records(topic, index)]

    def records(self, topic: str, index: int = 0) -> list[Record]:
        """Everything in a partition's log, in order."""
        log = self.log(topic, index)
        found: list[Record] = []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            chunk = log.read(
                offset, max_bytes=1 << 20, max_offset=log.log_end_offset, at_least_one=True
            ).chunk
            data = chunk if isinstance(chunk, bytes) else chunk.read()
            for at, header in batches(data):
                found += read_records(data, at)
                offset = header.next_offset
        return found


async def read_until(
    consumers: Iterable[AsyncConsumer], seen: list[ConsumerRecord], count: int, *, polls: int = 2_000
) -> None:
    """Poll in turn until so many records were seen."""
    for _ in range(polls):
        for consumer in consumers:
            seen += await consumer.poll(0.05)
        if len(seen) >= count:
            return
    raise AssertionError(f"{len(seen)} records of {count} in {polls} polls")


def partitions(topic: str, count: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(count)]
