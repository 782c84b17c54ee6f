"""aiokafka as a copier. It tells no generation of its group with the offsets (KIP-447), so a zombie must be
fenced as it was before: each partition has a transactional id of its own, which goes with it from member to
member. Whoever gets a partition takes up its id, and only then asks where the last one stopped.
"""

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor

from tests.compat.copiers.programs.settings import Settings, settings


class Copier(ConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
    """One consumer, and a producer for each of its partitions."""

    def __init__(self, given: Settings) -> None:
        self.given = given
        self.producers: dict[TopicPartition, AIOKafkaProducer] = {}
        self.turn = asyncio.Lock()  # the library calls its listener in the middle of other things
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=given.bootstrap,
            group_id=given.group,
            session_timeout_ms=given.session_ms,
            heartbeat_interval_ms=given.heartbeat_ms,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=100,
            partition_assignment_strategy=[RangePartitionAssignor],
        )

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        async with self.turn:
            for producer in self.producers.values():
                await producer.client.close()  # what is open ends when the next one takes the id up
            self.producers = {}

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        async with self.turn:
            self.producers = {place: await self._take_up(place) for place in assigned}
            for place in assigned:
                self.consumer.seek(place, await self.consumer.committed(place) or 0)

    async def _take_up(self, place: TopicPartition) -> AIOKafkaProducer:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.given.bootstrap,
            transactional_id=f"{self.given.group}-{place.partition}",
            transaction_timeout_ms=self.given.transaction_ms,
            linger_ms=2,
        )
        await producer.start()
        return producer

    async def run(self) -> None:
        self.consumer.subscribe([self.given.source], listener=self)
        await self.consumer.start()
        while True:
            async with self.turn:
                polled = await self.consumer.getmany(timeout_ms=200, max_records=self.given.size)
                for place, rows in polled.items():
                    if (producer := self.producers.get(place)) is not None:
                        await self._copy(producer, place, rows)

    async def _copy(self, producer: AIOKafkaProducer, place: TopicPartition, rows: list[Any]) -> None:
        async with producer.transaction():
            for row in rows:
                await producer.send(self.given.target, row.value, partition=place.partition)
            await producer.send_offsets_to_transaction({place: rows[-1].offset + 1}, self.given.group)


async def main() -> None:
    await Copier(settings()).run()  # a consumer can only be made on a running loop


if __name__ == "__main__":
    asyncio.run(main())
