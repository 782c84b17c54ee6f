"""headrace's own consumer as a member, with either protocol.

`more` may have `face` (sync or async); the rest are the consumer's settings. With `commit` auto it commits by
itself, with async beside the polls, else after every poll.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from headrace.base.ids import TopicPartition
from headrace.clients import AsyncConsumer, Consumer, OffsetAndMetadata, RebalanceListener
from headrace.clients.errors import ClientError, CommitFailedError, RefusedError
from tests.compat.mixed_groups.members.telling import Settings, Telling, now_ms, settings


class Listener(RebalanceListener):
    """Tells, and commits what was delivered before it is given up."""

    def __init__(self, given: Settings, telling: Telling) -> None:
        self.given = given
        self.telling = telling
        self.consumer: Any = None  # set once there is one

    def on_assigned(self, partitions: list[TopicPartition]) -> None:
        self.telling.assigned(each.partition for each in partitions)

    def on_lost(self, partitions: list[TopicPartition]) -> None:
        self.telling.revoked((each.partition for each in partitions), "lost")

    def offsets(self) -> dict[TopicPartition, int]:
        return {TopicPartition(self.given.topic, at): to for at, to in self.telling.uncommitted.items()}

    def noted(
        self, began: int, offsets: Mapping[TopicPartition, Any], error: ClientError | None = None
    ) -> None:
        if error is None:
            places = {
                each.partition: to.offset if isinstance(to, OffsetAndMetadata) else to
                for each, to in offsets.items()
            }
            self.telling.committed(began, places)
        else:
            self.telling.refused(error)

    def commit_soon(self) -> None:
        """The next one may be on its way before this is there."""
        offsets, began = self.offsets(), now_ms()
        self.consumer.commit_async(offsets, lambda places, error: self.noted(began, places, error))


class SyncListener(Listener):
    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        if self.given.commit != "auto":
            self.commit()
        self.telling.revoked(each.partition for each in partitions)

    def commit(self) -> None:
        offsets, began = self.offsets(), now_ms()
        if offsets:
            try:
                self.consumer.commit(offsets)
                self.noted(began, offsets)
            except (CommitFailedError, RefusedError) as error:
                self.telling.refused(error)


class AsyncListener(Listener):
    async def on_revoked(self, partitions: list[TopicPartition]) -> None:
        if self.given.commit != "auto":
            await self.commit()
        self.telling.revoked(each.partition for each in partitions)

    async def commit(self) -> None:
        offsets, began = self.offsets(), now_ms()
        if offsets:
            try:
                await self.consumer.commit(offsets)
                self.noted(began, offsets)
            except (CommitFailedError, RefusedError) as error:
                self.telling.refused(error)


def config(given: Settings) -> dict[str, Any]:
    more = {name: value for name, value in given.more.items() if name != "face"}
    return {
        "bootstrap.servers": given.bootstrap,
        "group.id": given.group,
        "client.id": given.client_id,
        "enable.auto.commit": given.commit == "auto",
        "auto.commit.interval.ms": 500,
        "auto.offset.reset": "earliest",
        "fetch.max.wait.ms": 200,
        "heartbeat.interval.ms": given.heartbeat_ms,
        "session.timeout.ms": given.session_ms,
        "max.poll.interval.ms": given.poll_interval_ms,
        **more,
    }


def run_sync(given: Settings) -> None:
    telling = Telling()
    listener = SyncListener(given, telling)
    with Consumer(config(given)) as consumer:
        listener.consumer = consumer
        consumer.subscribe([given.topic], listener=listener)
        while not telling.is_asked_to_leave.is_set():
            rows = consumer.poll(0.1)
            telling.records((row.partition, row.offset, row.value) for row in rows)
            if given.commit == "async" and telling.uncommitted:
                listener.commit_soon()
            elif given.commit == "sync":
                listener.commit()
    telling.tell("closed")


async def run_async(given: Settings) -> None:
    telling = Telling()
    listener = AsyncListener(given, telling)
    async with AsyncConsumer(config(given)) as consumer:
        listener.consumer = consumer
        consumer.subscribe([given.topic], listener=listener)
        while not telling.is_asked_to_leave.is_set():
            rows = await consumer.poll(0.1)
            telling.records((row.partition, row.offset, row.value) for row in rows)
            if given.commit == "async" and telling.uncommitted:
                listener.commit_soon()
            elif given.commit == "sync":
                await listener.commit()
    telling.tell("closed")


def main() -> None:
    given = settings()
    if given.more.get("face") == "async":
        asyncio.run(run_async(given))
    else:
        run_sync(given)


if __name__ == "__main__":
    main()
