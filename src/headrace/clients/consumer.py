"""The consumers: `Consumer` for programs with threads, `AsyncConsumer` on an event loop.

    with Consumer({"bootstrap.servers": "127.0.0.1:9092", "group.id": "billing"}) as consumer:
        consumer.subscribe(["orders"])
        while True:
            for record in consumer.poll(1.0):
                ...

    async with AsyncConsumer(bootstrap_servers="127.0.0.1:9092", group_id="billing") as consumer:
        consumer.subscribe(["orders"])
        async for record in consumer:
            ...

Times are in seconds where Python's own functions have them (`poll`), in milliseconds where Kafka's settings
do. Every call of `Consumer` is `AsyncConsumer`'s of the same name, waited for.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

from headrace.base.ids import TopicPartition
from headrace.clients.config import consumer_config
from headrace.clients.errors import ClientError, TimedOutError
from headrace.clients.internals.arguments import names_of, partitions_of
from headrace.clients.internals.background import SyncClient, calls, waits_for
from headrace.clients.internals.client_metrics import MetricName
from headrace.clients.internals.consumer.completed_fetch import ConsumerRecord, Deserializer
from headrace.clients.internals.consumer.core import ConsumerCore
from headrace.clients.internals.consumer.group_coordinator_client import ConsumerGroupMetadata
from headrace.clients.internals.consumer.subscription_state import (
    EARLIEST,
    LATEST,
    Listener,
    TopicPartitionState,
)
from headrace.clients.internals.environment import ClientEnvironment, system_environment
from headrace.clients.internals.offset_lookup import find_offsets
from headrace.clients.offsets import OffsetAndMetadata, OffsetAndTimestamp, with_metadata

Committed = Callable[[Mapping[TopicPartition, OffsetAndMetadata], ClientError | None], None]


class AsyncConsumer:
    """Reads records, on an event loop.

    Settings are Kafka's, as a mapping or as keywords with _ for dots. A deserializer makes a key or a value
    of bytes. One task at a time may use a consumer; `wakeup` may be called from anywhere.
    """

    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        *,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        environment: ClientEnvironment | None = None,
        **more: Any,
    ) -> None:
        config = consumer_config(settings, **more)
        environment = environment or system_environment(asyncio.get_running_loop(), config)
        self.core = ConsumerCore(
            environment, config, key_deserializer=key_deserializer, value_deserializer=value_deserializer
        )
        self._api_ms = config.int("default.api.timeout.ms")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        while True:
            for record in await self.poll(60.0):
                yield record

    # What to read

    def subscribe(
        self,
        topics: str | Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: Listener | None = None,
    ) -> None:
        """Share these topics, or those whose whole name matches a pattern, with the group.

        With group.protocol=consumer a pattern that is a string is matched by the coordinator, by RE2's rules;
        in classic groups, and where it is compiled already, it is matched here. A listener is a
        `RebalanceListener`, or any object with the methods of kafka-python's or aiokafka's.
        """
        self.core.check_subscribable()
        if isinstance(pattern, str) and self.core.is_assigned_by_coordinator:
            self.core.subscription.to_coordinators_pattern(pattern, listener)
        elif pattern is not None:
            self.core.subscription.to_pattern(pattern, listener)
        else:
            self.core.subscription.to_names(names_of(topics), listener)
        self.core.join()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without a group's say."""
        self.core.assign(partitions_of(partitions))

    async def unsubscribe(self) -> None:
        """Leave the group; read nothing."""
        await self.core.unsubscribe()

    @property
    def assignment(self) -> set[TopicPartition]:
        """The partitions that this consumer reads now."""
        return self.core.owned

    @property
    def subscription(self) -> set[str]:
        """The topics that are subscribed to; of a coordinator's pattern, those that this consumer reads."""
        if self.core.subscription.wanted is not None:
            return {each.topic for each in self.core.owned}
        return set(self.core.subscription.topics)

    # Reading

    async def poll(self, timeout: float = 0.0, *, max_records: int | None = None) -> list[ConsumerRecord]:
        """Records that have arrived, up to max.poll.records; waits up to `timeout` seconds for the first."""
        return await self.core.poll(timeout * 1000, max_records)

    async def poll_arrow(self, timeout: float = 0.0, *, columns: Sequence[str] | None = None) -> Any:
        """What has arrived, as a pyarrow.Table: topic, partition, offset, timestamp, timestamp_type, key,
        value and headers, or the `columns` asked for. Needs pyarrow (pip install 'headrace[arrow]').
        """
        from headrace.clients.internals.consumer.tables import BrokenFetchError, table_of  # numpy and pyarrow

        try:
            return table_of(await self.core.poll_chunks(timeout * 1000), columns)
        except BrokenFetchError as error:
            self.core.go_back(error.places)
            raise

    def wakeup(self) -> None:
        """End the current or the next poll with WakeupError. From any thread."""
        self.core.environment.loop.call_soon_threadsafe(self.core.wake_up)

    def pause(self, *partitions: TopicPartition) -> None:
        """Stop reading these; what was fetched of them waits."""
        for each in partitions:
            self._state(each).is_paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Read these again."""
        for each in partitions:
            self._state(each).is_paused = False
        self.core.news()

    @property
    def paused(self) -> set[TopicPartition]:
        """The partitions that `pause` stopped."""
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

    def _state(self, partition: TopicPartition) -> TopicPartitionState:
        state = self.core.positions.get(TopicPartition(*partition))
        if state is None:
            raise ClientError(f"{TopicPartition(*partition)} is not assigned to this consumer")
        return state

    async def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        """The offset of the next record to be polled; found out where it is not known yet."""
        state = self._state(partition)
        wait_ms = self._api_ms if timeout is None else timeout * 1000
        if not await self.core.wait_for(lambda: state.has_position, wait_ms):
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

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Who this consumer is in its group now, for a producer's `send_offsets_to_transaction`."""
        return ConsumerGroupMetadata(self.core.need_group().group_id, *self.core.identity)

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None) -> None:
        """Commit these offsets, or the positions; returns when the group has them."""
        await self.core.commits.commit(None if offsets is None else with_metadata(offsets))

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        callback: Committed | None = None,
    ) -> None:
        """Commit without waiting; the callback is called on the consumer's loop.

        A `Consumer` has that loop in a thread of its own.
        """
        self.core.need_group()
        commits = self.core.commits
        commits.commit_soon(commits.consumed() if offsets is None else with_metadata(offsets), callback)

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the group has committed; partitions without a commit are left out."""
        return await self.core.need_group().committed(partitions, timeout_ms=self._api_ms)

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets of the oldest records."""
        return await self._ends(partitions, EARLIEST)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets of the next records to be written; with read_committed, the last stable offsets."""
        return await self._ends(partitions, LATEST)

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each partition's time; None where there is none."""
        found = await find_offsets(self.core.client, times, timeout_ms=self._api_ms)
        return {each: place if place.offset >= 0 else None for each, place in found.items()}

    async def _ends(self, partitions: Iterable[TopicPartition], place: int) -> dict[TopicPartition, int]:
        found = await find_offsets(
            self.core.client,
            dict.fromkeys(partitions, place),
            is_committed=self.core.fetcher.is_committed,
            timeout_ms=self._api_ms,
        )
        return {each: found[each].offset for each in found}

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        """A topic's partitions; NoSuchTopicError where there is no such topic."""
        known = await self.core.client.topic(topic)
        return sorted(TopicPartition(topic, each.partition_index) for each in known.partitions)

    @property
    def trouble(self) -> ClientError | None:
        """Why nothing comes, where that is known and may pass."""
        return self.core.metadata_updater.trouble

    def metrics(self) -> dict[MetricName, float]:
        """What this consumer has done so far, by the names that Kafka's consumer has for it."""
        return self.core.metrics()

    async def close(self, timeout_ms: int = 30_000) -> None:
        """Commit where that is automatic, leave the group, and end."""
        await self.core.close(timeout_ms)


class Consumer(SyncClient[AsyncConsumer]):
    """Reads records, for programs with threads. Settings as for `AsyncConsumer`.

    Listeners are called in the thread that polls. Heartbeats go out while the caller works, up to
    max.poll.interval.ms. One thread at a time may use a consumer; `wakeup` may be called from anywhere.
    """

    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        *,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        **more: Any,
    ) -> None:
        config = consumer_config(settings, **more)

        def make(environment: ClientEnvironment) -> AsyncConsumer:
            return AsyncConsumer(
                config.given,
                key_deserializer=key_deserializer,
                value_deserializer=value_deserializer,
                environment=environment,
            )

        super().__init__("headrace-consumer", config, make)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[ConsumerRecord]:
        while True:
            yield from self.poll(60.0)

    # What to read

    subscribe = calls(AsyncConsumer.subscribe)
    assign = calls(AsyncConsumer.assign)
    unsubscribe = waits_for(AsyncConsumer.unsubscribe)

    @property
    def assignment(self) -> set[TopicPartition]:
        """The partitions that this consumer reads now."""
        return self._async.assignment

    @property
    def subscription(self) -> set[str]:
        """The topics that are subscribed to; of a coordinator's pattern, those that this consumer reads."""
        return self._async.subscription

    # Reading

    def poll(self, timeout: float = 0.0, *, max_records: int | None = None) -> list[ConsumerRecord]:
        """Records that have arrived, up to max.poll.records; waits up to `timeout` seconds for the first."""
        core = self._async.core
        rows = core.poll_here(max_records) or self._background.call(core.poll_now, max_records)
        return rows or self._background.run(self._async.poll, timeout, max_records=max_records)

    def poll_arrow(self, timeout: float = 0.0, *, columns: Sequence[str] | None = None) -> Any:
        """What has arrived, as a pyarrow.Table: topic, partition, offset, timestamp, timestamp_type, key,
        value and headers, or the `columns` asked for. Needs pyarrow (pip install 'headrace[arrow]').
        """
        from headrace.clients.internals.consumer.tables import BrokenFetchError, table_of  # numpy and pyarrow

        chunks = self._background.run(self._async.core.poll_chunks, timeout * 1000)
        try:
            return table_of(chunks, columns)  # here, while the loop's thread fetches on
        except BrokenFetchError as error:
            self._background.call(self._async.core.go_back, error.places)
            raise

    def wakeup(self) -> None:
        """End the current or the next poll with WakeupError. From any thread."""
        self._async.wakeup()

    pause = calls(AsyncConsumer.pause)
    resume = calls(AsyncConsumer.resume)

    @property
    def paused(self) -> set[TopicPartition]:
        """The partitions that `pause` stopped."""
        return self._async.paused

    # Positions

    seek = calls(AsyncConsumer.seek)
    seek_to_beginning = calls(AsyncConsumer.seek_to_beginning)
    seek_to_end = calls(AsyncConsumer.seek_to_end)
    seek_to_time = calls(AsyncConsumer.seek_to_time)
    position = waits_for(AsyncConsumer.position)
    positions = calls(AsyncConsumer.positions)
    metrics = calls(AsyncConsumer.metrics)

    def lag(self, partition: TopicPartition) -> int | None:
        """How many records lie between the position and the end, as of the last fetch; None before it."""
        return self._async.lag(partition)

    # Offsets

    group_metadata = calls(AsyncConsumer.group_metadata)
    commit = waits_for(AsyncConsumer.commit)
    commit_async = calls(AsyncConsumer.commit_async)
    committed = waits_for(AsyncConsumer.committed)
    beginning_offsets = waits_for(AsyncConsumer.beginning_offsets)
    end_offsets = waits_for(AsyncConsumer.end_offsets)
    offsets_for_times = waits_for(AsyncConsumer.offsets_for_times)
    partitions_for = waits_for(AsyncConsumer.partitions_for)

    @property
    def trouble(self) -> ClientError | None:
        """Why nothing comes, where that is known and may pass."""
        return self._async.trouble

    def close(self, timeout_ms: int = 30_000) -> None:
        """Commit where that is automatic, leave the group, and end."""
        if not self._is_closed:
            self._is_closed = True
            with contextlib.closing(self._background):
                self._background.run(self._async.close, timeout_ms)
