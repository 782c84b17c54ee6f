"""A simple producer that waits: records are gathered by partition, and sent when there are enough.

A record with a key goes to the partition that every Kafka producer chooses for that key (murmur2), one
without to the same partition as the last until a batch is full, then to another one. Each flush sends one
batch for each partition, all leaders at once, and waits for them: there is never a second batch of a
partition on its way, so their order is kept even when one has to be sent again. Sending again may write
records twice, since the producer has no id.
"""

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import NO_LEADER, NO_TOPIC_ID, TopicPartition
from headrace.clients.cluster import Cluster
from headrace.clients.errors import ClientError, RefusedError, TimedOutError, UnreachableError
from headrace.records.batch import Codec, Record, build_batch
from headrace.records.kernel_choice import partition_for_key
from headrace.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData

# A batch is sent when its records reach this size: well below Kafka's max.message.bytes of 1 MiB.
BATCH_BYTES: Final = 256 * 1024
# Everything is sent when all partitions together hold this much.
BUFFER_BYTES: Final = 8 * 1024 * 1024
# What a record takes beside key and value, about.
_RECORD_OVERHEAD: Final = 24
# Produce names topics by id from this version on; a broker without ids is spoken to in the one before.
_FIRST_WITH_IDS: Final = 13

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Delivery:
    """A batch that was written: its records have the offsets from `first_offset` on (-1 with acks=0)."""

    partition: TopicPartition
    first_offset: int
    records: tuple[Record, ...]


@dataclass(slots=True)
class _Gathering:
    records: list[Record] = field(default_factory=list)
    size: int = 0


class Producer:
    """Writes records. `on_delivery` is told of every batch that was written."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        acks: int = -1,
        codec: int = Codec.NONE,
        rng: random.Random,
        create_topics: bool = False,
        on_delivery: Callable[[Delivery], None] | None = None,
    ) -> None:
        self._cluster = cluster
        self._acks = acks
        self._codec = codec
        self._rng = rng
        self._create_topics = create_topics
        self._on_delivery = on_delivery
        self._gathering: dict[TopicPartition, _Gathering] = {}
        self._size = 0
        self._sticky: dict[str, int] = {}
        self._counts: dict[str, int] = {}

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Take a record; it leaves with its batch. ClientError where its topic or partition is not there."""
        target = TopicPartition(topic, self._choose(topic, key, partition))
        now_ms = self._cluster.world.clock.now_ms() if timestamp_ms is None else timestamp_ms
        record = Record(timestamp=now_ms, key=key, value=value, headers=headers)
        size = _RECORD_OVERHEAD + len(key or b"") + len(value or b"")
        gathering = self._gathering.setdefault(target, _Gathering())
        if gathering.records and gathering.size + size > BATCH_BYTES:
            self.flush()
            gathering = self._gathering.setdefault(target, _Gathering())
        gathering.records.append(record)
        gathering.size += size
        self._size += size
        if self._size >= BUFFER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send what is gathered and wait until it is written; an error names the first that failed."""
        waiting = {partition: gathering.records for partition, gathering in self._gathering.items()}
        self._gathering.clear()
        self._sticky.clear()
        self._size = 0
        if waiting:
            self._cluster.patiently(lambda: self._attempt(waiting))

    # Where to

    def _choose(self, topic: str, key: bytes | None, partition: int | None) -> int:
        count = self._counts.get(topic)
        if count is None:
            count = len(self._cluster.topic(topic, create=self._create_topics).partitions)
            self._counts[topic] = count
        if partition is not None:
            if not 0 <= partition < count:
                raise ClientError(f"topic {topic!r} has no partition {partition}: it has 0 to {count - 1}")
            return partition
        if key is not None:
            return partition_for_key(key, count)
        if topic not in self._sticky:
            self._sticky[topic] = self._rng.randrange(count)
        return self._sticky[topic]

    # Sending

    def _attempt(self, waiting: dict[TopicPartition, list[Record]]) -> None:
        """Send every batch that still waits; the first failure is raised when the others are done."""
        failure: ClientError | None = None
        sent = []
        for leader, partitions in self._by_leader(waiting).items():
            request = self._request(waiting, partitions)
            try:
                connection = self._cluster.connection(leader)
                at_most = None if self._has_ids(partitions) else _FIRST_WITH_IDS - 1
                pending = connection.send(request, timeout_ms=self._timeout_ms, at_most=at_most)
                sent.append((leader, partitions, pending))
            except (UnreachableError, TimedOutError) as error:
                self._cluster.drop(leader)
                failure = failure or error
        for leader, partitions, pending in sent:
            try:
                if self._acks == 0:
                    self._cluster.connection(leader).forget(pending)
                    self._written(waiting, dict.fromkeys(partitions, -1))
                else:
                    response = self._cluster.connection(leader).receive(pending, timeout_ms=self._timeout_ms)
                    self._handle(waiting, response)
            except (RefusedError, UnreachableError, TimedOutError) as error:
                if not isinstance(error, RefusedError):
                    self._cluster.drop(leader)
                failure = failure or error
        if failure is not None:
            self._cluster.refresh(sorted({each.topic for each in waiting}))
            raise failure

    @property
    def _timeout_ms(self) -> int:
        return self._cluster.timeout_ms

    def _by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        groups: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            leader = self._cluster.view.leader(partition)
            if leader == NO_LEADER:
                self._cluster.refresh([partition.topic])
                leader = self._cluster.view.leader(partition)
            if leader == NO_LEADER:
                raise RefusedError(ErrorCode.LEADER_NOT_AVAILABLE, f"cannot write to partition {partition}")
            groups.setdefault(leader, []).append(partition)
        return groups

    def _has_ids(self, partitions: Iterable[TopicPartition]) -> bool:
        return all(self._cluster.view.topic_id(each.topic) != NO_TOPIC_ID for each in partitions)

    def _request(
        self, waiting: Mapping[TopicPartition, list[Record]], partitions: Iterable[TopicPartition]
    ) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        for partition in partitions:
            topic_id = self._cluster.view.topic_id(partition.topic)
            topic = topics.setdefault(
                partition.topic, TopicProduceData(name=partition.topic, topic_id=topic_id)
            )
            batch = build_batch(waiting[partition], codec=self._codec)
            topic.partition_data.append(PartitionProduceData(index=partition.partition, records=batch))
        return ProduceRequest(acks=self._acks, timeout_ms=self._timeout_ms, topic_data=list(topics.values()))

    def _handle(self, waiting: dict[TopicPartition, list[Record]], response: Any) -> None:
        """Take what was written out of `waiting`; RefusedError for the first that was not."""
        names = {topic.topic_id: name for name, topic in self._cluster.view.topics.items()}
        written: dict[TopicPartition, int] = {}
        failure: RefusedError | None = None
        for topic in response.responses:
            for result in topic.partition_responses:
                partition = TopicPartition(topic.name or names[topic.topic_id], result.index)
                if result.error_code == ErrorCode.NONE:
                    written[partition] = result.base_offset
                elif failure is None:
                    failure = RefusedError(
                        result.error_code, f"cannot write to {partition}", result.error_message
                    )
        self._written(waiting, written)
        if failure is not None:
            raise failure

    def _written(
        self, waiting: dict[TopicPartition, list[Record]], offsets: Mapping[TopicPartition, int]
    ) -> None:
        for partition, first_offset in offsets.items():
            records = tuple(waiting.pop(partition))
            if self._on_delivery is not None:
                self._on_delivery(Delivery(partition, first_offset, records))
