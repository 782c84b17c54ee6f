"""`Consumer`: the consumer for programs with threads, an `AsyncConsumer` behind a thread of its own.

    with Consumer({"bootstrap.servers": "127.0.0.1:9092", "group.id": "billing"}) as consumer:
        consumer.subscribe(["orders"])
        while True:
            for record in consumer.poll(1.0):
                ...

Every call is the async face's of the same name, waited for. Listeners are called in the thread that polls.
Heartbeats go out while the caller works, up to max.poll.interval.ms. One thread at a time may use a consumer.
"""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Self, TypeVar

from headrace.base.ids import TopicPartition
from headrace.clients.background import Background
from headrace.clients.consuming.async_face import AsyncConsumer, Committed, consumer_config
from headrace.clients.consuming.coordinator import GroupMetadata, OffsetAndMetadata
from headrace.clients.consuming.listener import RebalanceListener
from headrace.clients.consuming.records import ConsumedRecord, Deserializer
from headrace.clients.errors import ClientError
from headrace.clients.offset_lookup import FoundOffset
from headrace.clients.world import system_world

T = TypeVar("T")


class Consumer:
    """Reads records. Settings as for `AsyncConsumer`."""

    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        *,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        **more: Any,
    ) -> None:
        config = consumer_config(settings, **more)
        self._background = Background("headrace-consumer")
        world = system_world(
            self._background.loop,
            send_buffer_bytes=config.int("send.buffer.bytes"),
            receive_buffer_bytes=config.int("receive.buffer.bytes"),
        )
        with self._background.closed_on_error():
            self._async = AsyncConsumer(
                config.given,
                key_deserializer=key_deserializer,
                value_deserializer=value_deserializer,
                world=world,
            )
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[ConsumedRecord]:
        while True:
            yield from self.poll(60.0)

    def _call(self, function: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Call a plain function of the async face on its loop."""

        return self._background.call(partial(function, *arguments, **named))

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
        self._call(self._async.subscribe, topics, pattern=pattern, listener=listener)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without a group's say."""
        self._call(self._async.assign, partitions)

    def unsubscribe(self) -> None:
        """Leave the group; read nothing."""
        self._background.run(self._async.unsubscribe())

    @property
    def assignment(self) -> set[TopicPartition]:
        return self._async.assignment

    @property
    def subscription(self) -> set[str]:
        return self._async.subscription

    # Reading

    def poll(self, timeout: float = 0.0, *, max_records: int | None = None) -> list[ConsumedRecord]:
        """Records that have arrived, up to max.poll.records; waits up to `timeout` seconds for the first."""
        core = self._async.core
        rows = core.poll_here(max_records) or self._background.call(core.poll_now, max_records)
        return rows or self._background.run(self._async.poll(timeout, max_records=max_records))

    def poll_arrow(self, timeout: float = 0.0, *, columns: Sequence[str] | None = None) -> Any:
        """What has arrived, as a pyarrow.Table: topic, partition, offset, timestamp, timestamp_type, key,
        value and headers, or the `columns` asked for. Needs pyarrow (pip install 'headrace[arrow]').
        """
        from headrace.clients.consuming.tables import BrokenChunkError, table_of  # numpy and pyarrow

        chunks = self._background.run(self._async.core.poll_chunks(timeout * 1000))
        try:
            return table_of(chunks, columns)  # here, while the loop's thread fetches on
        except BrokenChunkError as error:
            self._call(self._async.core.go_back, error.places)
            raise

    def wakeup(self) -> None:
        """End the current or the next poll with WakeupError. From any thread."""
        self._async.wakeup()

    def pause(self, *partitions: TopicPartition) -> None:
        """Stop reading these; what was fetched of them waits."""
        self._call(self._async.pause, *partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        self._call(self._async.resume, *partitions)

    @property
    def paused(self) -> set[TopicPartition]:
        return self._async.paused

    # Positions

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on reading a partition at this offset."""
        self._call(self._async.seek, partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go to the oldest record: of all partitions where none is named."""
        self._call(self._async.seek_to_beginning, *partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go to where the next record will be."""
        self._call(self._async.seek_to_end, *partitions)

    def seek_to_time(self, time_ms: int, *partitions: TopicPartition) -> None:
        """Go to the first record of this time or later; to the end where there is none."""
        self._call(self._async.seek_to_time, time_ms, *partitions)

    def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        """The offset of the next record to be polled; found out where it is not known yet."""
        return self._background.run(self._async.position(partition, timeout))

    def positions(self) -> dict[TopicPartition, int]:
        """The positions that are known now."""
        return self._call(self._async.positions)

    def lag(self, partition: TopicPartition) -> int | None:
        """How many records lie between the position and the end, as of the last fetch; None before it."""
        return self._async.lag(partition)

    # Offsets

    def group_metadata(self) -> GroupMetadata:
        """Who this consumer is in its group now, for a producer's `send_offsets_to_transaction`."""
        return self._call(self._async.group_metadata)

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None) -> None:
        """Commit these offsets, or the positions; returns when the group has them."""
        self._background.run(self._async.commit(offsets))

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        callback: Committed | None = None,
    ) -> None:
        """Commit without waiting; the callback is called in the consumer's own thread."""
        self._call(self._async.commit_async, offsets, callback)

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the group has committed; partitions without a commit are left out."""
        return self._background.run(self._async.committed(partitions))

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._background.run(self._async.beginning_offsets(partitions))

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._background.run(self._async.end_offsets(partitions))

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, FoundOffset | None]:
        """The first record at or after each partition's time; None where there is none."""
        return self._background.run(self._async.offsets_for_times(times))

    def partitions_for(self, topic: str) -> list[TopicPartition]:
        """A topic's partitions; NoSuchTopicError where there is no such topic."""
        return self._background.run(self._async.partitions_for(topic))

    @property
    def trouble(self) -> ClientError | None:
        """Why nothing comes, where that is known and may pass."""
        return self._async.trouble

    def close(self, timeout_ms: int = 30_000) -> None:
        """Commit where that is automatic, leave the group, and end."""
        if not self._is_closed:
            self._is_closed = True
            with contextlib.closing(self._background):
                self._background.run(self._async.close(timeout_ms))
