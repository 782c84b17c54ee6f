"""What lies in a cluster's remote store, as a client finds out: by reading `__remote_log_metadata`.

No request tells it. The topic's records do, and every broker lives by the same ones. They are read as far as
they go when somebody asks, and only what is new the next time.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from headrace.base.ids import TopicPartition
from headrace.base.internal_topics import REMOTE_LOG_TOPIC
from headrace.clients.errors import NoSuchTopicError, TimedOutError
from headrace.clients.offsets import OffsetSpec
from headrace.tiered.metadata_cache import RemoteLogMetadataCache, RemotePartitionMetadataStore
from headrace.tiered.metadata_serde import known_record, metadata_partition_of
from headrace.tiered.segment_metadata import TopicIdPartition

if TYPE_CHECKING:
    from headrace.clients import Admin, AsyncAdmin, AsyncConsumer

_POLL_S: Final = 1.0
# Polls without a record before the topic counts as out of reach: its end was told by a leader just before.
_EMPTY_POLLS_MAX: Final = 30


class AsyncClusterRemoteLogs:
    """Reads with consumers that it is given; remembers what it has read."""

    def __init__(self, consumer: Callable[[], "AsyncConsumer"]) -> None:
        self._consumer = consumer
        self._logs = RemotePartitionMetadataStore()
        self._read_to: dict[TopicPartition, int] = {}

    async def of(
        self, admin: "AsyncAdmin", partitions: Iterable[TopicIdPartition]
    ) -> dict[TopicIdPartition, RemoteLogMetadataCache]:
        """What the remote store holds of these partitions now."""
        wanted = list(partitions)
        try:
            (topic,) = await admin.describe_topics([REMOTE_LOG_TOPIC])
        except NoSuchTopicError:
            return {each: RemoteLogMetadataCache() for each in wanted}
        numbers = {metadata_partition_of(each, len(topic.partitions)) for each in wanted}
        sources = [TopicPartition(REMOTE_LOG_TOPIC, number) for number in sorted(numbers)]
        ends = await admin.list_offsets(dict.fromkeys(sources, OffsetSpec.LATEST))
        starts = await admin.list_offsets(dict.fromkeys(sources, OffsetSpec.EARLIEST))
        for each in sources:
            self._read_to[each] = max(self._read_to.get(each, 0), starts[each].offset)
        await self._read(
            {each: ends[each].offset for each in sources if self._read_to[each] < ends[each].offset}
        )
        return {each: self._logs.known(each) for each in wanted}

    async def _read(self, ends: Mapping[TopicPartition, int]) -> None:
        if not ends:
            return
        async with self._consumer() as consumer:
            consumer.assign(ends)
            for partition in ends:
                consumer.seek(partition, self._read_to[partition])
            empty = 0
            while any(self._read_to[partition] < end for partition, end in ends.items()):
                records = await consumer.poll(_POLL_S)
                for record in records:
                    self._apply(record.value)
                self._read_to.update(consumer.positions())
                empty = 0 if records else empty + 1
                if empty > _EMPTY_POLLS_MAX:
                    raise TimedOutError(f"{REMOTE_LOG_TOPIC} cannot be read to its end: {consumer.trouble}")

    def _apply(self, value: bytes | None) -> None:
        record = known_record(value)
        if record is not None:
            self._logs.apply(record)


class ClusterRemoteLogs:
    """The same for programs with threads: reads with a consumer of these settings, on the admin's loop."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = dict(settings)
        self._logs = AsyncClusterRemoteLogs(self._consumer)

    def of(
        self, admin: "Admin", partitions: Iterable[TopicIdPartition]
    ) -> dict[TopicIdPartition, RemoteLogMetadataCache]:
        """What the remote store holds of these partitions now."""
        return admin._background.run(self._logs.of, admin._async, partitions)

    def _consumer(self) -> "AsyncConsumer":
        from headrace.clients import AsyncConsumer

        return AsyncConsumer(self._settings, enable_auto_commit=False, isolation_level="read_uncommitted")
