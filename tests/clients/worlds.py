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
from headrace.clients.consuming.async_face import AsyncConsumer
from headrace.clients.consuming.records import ConsumedRecord
from headrace.clients.producing.face import AsyncProducer
from headrace.clients.world import World
from headrace.records.batch import batches, read_records
from tests.server.node_world import PORT, NodeWorld


class ClientWorld(NodeWorld):
    """A node, and clients of it on the driver's loop."""

    clients = 0

    def surroundings(self) -> World:
        """Of one more client, with chance of its own."""
        self.clients += 1
        rng = self.world.scheduler.random_for(f"client/{self.clients}")
        return World(self.world.driver, self._network, self.machine.clock, rng)

    def producer(self, **settings: Any) -> AsyncProducer:
        return AsyncProducer({"bootstrap.servers": f"node:{PORT}"}, world=self.surroundings(), **settings)

    def consumer(self, **settings: Any) -> AsyncConsumer:
        return AsyncConsumer({"bootstrap.servers": f"node:{PORT}"}, world=self.surroundings(), **settings)

    def cut_all(self) -> None:
        """Reset every connection."""
        for stream in self.world.network.connections("node", "client"):
            self.world.network.cut(stream)

    def partition_off(self) -> None:
        self.world.network.partition(["node"], ["client"])

    def heal(self) -> None:
        self.world.network.heal()

    def values(self, topic: str, index: int = 0) -> list[bytes | None]:
        """Everything in a partition's log, in order."""
        log = self.log(topic, index)
        found: list[bytes | None] = []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            chunk = log.read(
                offset, max_bytes=1 << 20, max_offset=log.log_end_offset, at_least_one=True
            ).chunk
            data = chunk if isinstance(chunk, bytes) else chunk.read()
            for at, header in batches(data):
                found += [record.value for record in read_records(data, at)]
                offset = header.next_offset
        return found


async def read_until(
    consumers: Iterable[AsyncConsumer], seen: list[ConsumedRecord], count: int, *, polls: int = 2_000
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
