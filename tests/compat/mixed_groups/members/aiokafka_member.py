"""aiokafka as a member: classic groups, eager."""

import asyncio

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError

from tests.compat.mixed_groups.members.telling import Settings, Telling, now_ms, settings


class Member(ConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
    """One consumer and its listener."""

    def __init__(self, given: Settings) -> None:
        self.given = given
        self.telling = Telling()
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=given.bootstrap,
            group_id=given.group,
            client_id=given.client_id,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=200,
            heartbeat_interval_ms=given.heartbeat_ms,
            session_timeout_ms=given.session_ms,
            max_poll_interval_ms=given.poll_interval_ms,
            rebalance_timeout_ms=given.poll_interval_ms,
            partition_assignment_strategy=[RangePartitionAssignor],
        )

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self.telling.assigned(place.partition for place in assigned)

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        if revoked:
            await self.commit()
            self.telling.revoked(place.partition for place in revoked)

    async def commit(self) -> None:
        offsets = dict(self.telling.uncommitted)
        if not offsets:
            return
        began = now_ms()
        try:
            await self.consumer.commit(
                {TopicPartition(self.given.topic, at): to for at, to in offsets.items()}
            )
            self.telling.committed(began, offsets)
        except KafkaError as error:
            self.telling.refused(error)

    async def run(self) -> None:
        self.consumer.subscribe([self.given.topic], listener=self)
        await self.consumer.start()
        while not self.telling.is_asked_to_leave.is_set():
            polled = await self.consumer.getmany(timeout_ms=100)
            self.telling.records(
                (each.partition, each.offset, each.value) for rows in polled.values() for each in rows
            )
            await self.commit()
        if self.telling.owned:
            self.telling.revoked(self.telling.owned)
        await self.consumer.stop()
        self.telling.tell("closed")


async def main() -> None:
    await Member(settings()).run()  # a consumer can only be made on a running loop


if __name__ == "__main__":
    asyncio.run(main())
