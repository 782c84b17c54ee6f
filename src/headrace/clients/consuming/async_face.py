"""`AsyncConsumer`: the consumer on an event loop.

    async with AsyncConsumer(bootstrap_servers="127.0.0.1:9092", group_id="billing") as consumer:
        consumer.subscribe(["orders"])
        while True:
            for record in await consumer.poll(1.0):
                ...

Times are in seconds where Python's own functions have them (`poll`), in milliseconds where Kafka's settings
do. One task at a time may use a consumer; `wakeup` may be called from anywhere.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, Self

from headrace.base.ids import TopicPartition
from headrace.clients.configuration import ClientConfig
from headrace.clients.consuming.coordinator import GroupMetadata, OffsetAndMetadata, places_of
from headrace.clients.consuming.core import ConsumerCore
from headrace.clients.consuming.listener import RebalanceListener
from headrace.clients.consuming.positions import EARLIEST, LATEST, PartitionState
from headrace.clients.consuming.records import ConsumedRecord, Deserializer
from headrace.clients.errors import ClientError, TimedOutError
from headrace.clients.offset_lookup import FoundOffset, find_offsets
from headrace.clients.setting_tables import CONSUMER
from headrace.clients.world import World, system_world
from headrace.settings.definition import SettingError

Committed = Callable[[Mapping[TopicPartition, OffsetAndMetadata], ClientError | None], None]


def consumer_config(settings: Mapping[str, Any] | None, **more: Any) -> ClientConfig:
    """Checked settings of a consumer."""
    config = ClientConfig(CONSUMER, settings, **more)
    if config.int("heartbeat.interval.ms") >= config.int("session.timeout.ms"):
        raise SettingError("heartbeat.interval.ms", "it must be less than session.timeout.ms")
    return config


class AsyncConsumer:
    """Reads records, on an event loop. Settings are Kafka's, as a mapping or as keywords with _ for dots."""

    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        *,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        world: World | None = None,
        **more: Any,
    ) -> None:
        config = consumer_config(settings, **more)
        world = world or system_world(
            asyncio.get_running_loop(),
            send_buffer_bytes=config.int("send.buffer.bytes"),
            receive_buffer_bytes=config.int("receive.buffer.bytes"),
        )
        self.core = ConsumerCore(
            world, config, key_deserializer=key_deserializer, value_deserializer=value_deserializer
        )
        self._api_ms = config.int("default.api.timeout.ms")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def __aiter__(self) -> AsyncIterator[ConsumedRecord]:
        while True:
            for record in await self.poll(60.0):
                yield record

    # What to read

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Share these topics, or those whose whole name matches a pattern, with the group.

        With group.protocol=consumer a pattern that is a string is matched by the coordinator, by RE2's rules;
        in classic groups, and where it is compiled already, it is matched here.
        """
        if isinstance(pattern, str) and self.core.is_assigned_by_coordinator:
            self.core.subscription.to_coordinators_pattern(pattern, listener)
        elif pattern is not None:
            self.core.subscription.to_pattern(pattern, listener)
        else:
            self.core.subscription.to_names([topics] if isinstance(topics, str) else topics, listener)
        self.core.join()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without a group's say."""
        self.core.assign([TopicPartition(*each) for each in partitions])

    async def unsubscribe(self) -> None:
        """Leave the group; read nothing."""
        await self.core.unsubscribe()

    @property
    def assignment(self) -> set[TopicPartition]:
        return self.core.owned

    @property
    def subscription(self) -> set[str]:
        """The topics that are subscribed to; of a coordinator's pattern, those that this consumer reads."""
        if self.core.subscription.wanted is not None:
            return {each.topic for each in self.core.owned}
        return set(self.core.subscription.topics)

    # Reading

    async def poll(self, timeout: float = 0.0, *, max_records: int | None = None) -> list[ConsumedRecord]:
        """Records that have arrived, up to max.poll.records; waits up to `timeout` seconds for the first."""
        return await self.core.poll(timeout * 1000, max_records)

    async def poll_arrow(self, timeout: float = 0.0, *, columns: Sequence[str] | None = None) -> Any:
        """What has arrived, as a pyarrow.Table: topic, partition, offset, timestamp, timestamp_type, key,
        value and headers, or the `columns` asked for. Needs pyarrow (pip install 'headrace[arrow]').
        """
        from headrace.clients.consuming.tables import BrokenChunkError, table_of  # numpy and pyarrow

        try:
            return table_of(await self.core.poll_chunks(timeout * 1000), columns)
        except BrokenChunkError as error:
            self.core.go_back(error.places)
            raise

    def wakeup(self) -> None:
        """End the current or the next poll with WakeupError. From any thread."""
        self.core.world.loop.call_soon_threadsafe(self.core.wake_up)

    def pause(self, *partitions: TopicPartition) -> None:
        """Stop reading these; what was fetched of them waits."""
        for each in partitions:
            self._state(each).is_paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        for each in partitions:
            self._state(each).is_paused = False
        self.core.news()

    @property
    def paused(self) -> set[TopicPartition]:
        return {state.partition for state in self.core.positions if state.is_paused}

    # Positions

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on reading a partition at this offset."""
        if offset < 0:
            raise ClientError(f"{offset} is no offset: seek_to_beginning and seek_to_end find the ends")
        self._state(partition).seek(offset)
        self.core.news()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go to the oldest record: of all partitions where none is named."""
        self._reset(partitions, EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go to where the next record will be."""
        self._reset(partitions, LATEST)

    def seek_to_time(self, time_ms: int, *partitions: TopicPartition) -> None:
        """Go to the first record of this time or later; to the end where there is none."""
        self._reset(partitions, time_ms)

    def _reset(self, partitions: Iterable[TopicPartition], to: int) -> None:
        for state in [self._state(each) for each in partitions] or list(self.core.positions):
            state.reset(to)
        self.core.news()

    def _state(self, partition: TopicPartition) -> PartitionState:
        state = self.core.positions.get(TopicPartition(*partition))
        if state is None:
            raise ClientError(f"{TopicPartition(*partition)} is not assigned to this consumer")
        return state

    async def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        """The offset of the next record to be polled; found out where it is not known yet."""
        state = self._state(partition)
        wait_ms = self._api_ms if timeout is None else timeout * 1000
        if not await self.core.settle(lambda: state.has_position, wait_ms):
            raise TimedOutError(f"the position in {partition} was not found within {wait_ms:.0f} ms")
        return state.position

    def positions(self) -> dict[TopicPartition, int]:
        """The positions that are known now."""
        return {state.partition: state.position for state in self.core.positions if state.has_position}

    def lag(self, partition: TopicPartition) -> int | None:
        """How many records lie between the position and the end, as of the last fetch; None before it."""
        state = self._state(partition)
        end = state.last_stable_offset if self.core.fetcher.is_committed else state.high_watermark
        return max(0, end - state.position) if state.has_position and end >= 0 else None

    # Offsets

    def group_metadata(self) -> GroupMetadata:
        """Who this consumer is in its group now, for a producer's `send_offsets_to_transaction`."""
        return GroupMetadata(self.core.need_group().group_id, *self.core.identity)

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None) -> None:
        """Commit these offsets, or the positions; returns when the group has them."""
        await self.core.commits.commit(None if offsets is None else places_of(offsets))

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        callback: Committed | None = None,
    ) -> None:
        """Commit without waiting; the callback is called on the consumer's loop."""
        self.core.need_group()
        commits = self.core.commits
        commits.commit_soon(commits.consumed() if offsets is None else places_of(offsets), callback)

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the group has committed; partitions without a commit are left out."""
        return await self.core.need_group().committed(partitions, timeout_ms=self._api_ms)

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return await self._ends(partitions, EARLIEST)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return await self._ends(partitions, LATEST)

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, FoundOffset | None]:
        """The first record at or after each partition's time; None where there is none."""
        found = await find_offsets(self.core.cluster, times, timeout_ms=self._api_ms)
        return {each: place if place.offset >= 0 else None for each, place in found.items()}

    async def _ends(self, partitions: Iterable[TopicPartition], place: int) -> dict[TopicPartition, int]:
        found = await find_offsets(
            self.core.cluster,
            dict.fromkeys(partitions, place),
            is_committed=self.core.fetcher.is_committed,
            timeout_ms=self._api_ms,
        )
        return {each: found[each].offset for each in found}

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        """A topic's partitions; NoSuchTopicError where there is no such topic."""
        known = await self.core.cluster.topic(topic)
        return sorted(TopicPartition(topic, each.partition_index) for each in known.partitions)

    @property
    def trouble(self) -> ClientError | None:
        """Why nothing comes, where that is known and may pass."""
        return self.core.freshness.trouble

    async def close(self, timeout_ms: int = 30_000) -> None:
        """Commit where that is automatic, leave the group, and end."""
        await self.core.close(timeout_ms)
