"""CoordinatorRuntime: what the group and the transaction coordinator run on. Decide, write, replay, answer.

A coordinator's state lives in an internal topic. The leader of one of its partitions runs a CoordinatorShard
over that partition: a request reads the shard's state and returns records; the runtime appends them, replays
them into the shard, and answers the request once every in-sync replica has them. Loading after a restart or a
change of leader is the same `replay`, over the partition from its start; what was loaded beyond the high
watermark counts as a write that is not committed yet. A request that waits too long for that is told so; its
write may be committed all the same. A shard that lost its partition is thrown away.

Records may be part of a producer's transaction: they are replayed as transactional, and count when the
transaction's marker, sent by the transaction coordinator as to any other partition, says so.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, Generic, NamedTuple, TypeVar

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.base.ids import TopicPartition
from headrace.base.producer_id_and_epoch import ProducerIdAndEpoch
from headrace.coordinators.coordinator_shard import (
    CoordinatorRecord,
    CoordinatorShard,
    Done,
)
from headrace.log.append import AppendOrigin
from headrace.log.missing_records import note_damaged
from headrace.records.batch import (
    BatchHeader,
    ControlType,
    Record,
    batches,
    build_batch,
    crc_matches,
    read_header,
    read_records,
    read_txn_marker,
)
from headrace.replication.partition import Partition
from headrace.wire.record_frames import UnknownRecordError, decode_key, decode_value, encode_key, encode_value

logger = logging.getLogger(__name__)

# One step of loading: long enough to be efficient, short enough that other requests are served in between.
LOAD_BYTES: Final = 1024 * 1024

# What a failed append is told as to clients of a coordinator.
APPEND_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}


S = TypeVar("S", bound=CoordinatorShard)


@dataclass(slots=True)
class CoordinatorContext(Generic[S]):
    """What the runtime keeps for one partition: its shard, and the events that wait for replication."""

    partition: Partition
    shard: S
    leader_epoch: int
    active: bool = False
    last_written_offset: int = 0  # the end of what the shard has replayed
    deferred_writes: deque["_DeferredEvent"] = field(default_factory=deque)
    # These wait for the followers' answers as well, so they have a queue of their own: no write waits behind.
    deferred_reads: deque["_DeferredEvent"] = field(default_factory=deque)
    deferred_timer: asyncio.TimerHandle | None = None


class _DeferredEvent(NamedTuple):
    """A callback that waits until the log is replicated up to an offset, and its deadline; with a question,
    also until the followers have answered it."""

    end_offset: int
    done: Done
    deadline_ms: float
    question: int = 0

    def is_committed(self, partition: Partition) -> bool:
        if not partition.replicated_to(self.end_offset):
            return False
        return not self.question or partition.is_followed_since(self.question)


class CoordinatorRuntime(Generic[S]):
    """The shards of all partitions of one internal topic that this node leads.

    `family` is the kind of records it holds: see `wire.record_frames`. `on_active` is called when a shard is
    loaded, which may be long after this node became the partition's leader. `write_timeout_ms` limits how
    long a request waits for its write to be replicated. `on_replayed` hears at which offset a record stands,
    once a shard has replayed it.
    """

    def __init__(
        self,
        topic: str,
        family: tuple[str, ...],
        *,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        make_shard: Callable[[int], S],
        on_active: Callable[[], None] = lambda: None,
        write_timeout_ms: float = inf,
        on_replayed: Callable[[S, int, object, object | None], None] | None = None,
    ) -> None:
        self.topic = topic
        self._family = family
        self._clock = clock
        self._loop = loop
        self._make_shard = make_shard
        self._on_active = on_active
        self._wait_ms_max = write_timeout_ms
        self._on_replayed = on_replayed
        self._contexts: dict[int, CoordinatorContext[S]] = {}

    def shards(self) -> list[S]:
        """The shards that are loaded."""
        return [context.shard for context in self._contexts.values() if context.active]

    @property
    def loading(self) -> bool:
        return any(not context.active for context in self._contexts.values())

    def partition_counts(self) -> dict[str, int]:
        """How many partitions are in which of Kafka's states of a coordinator."""
        active = sum(context.active for context in self._contexts.values())
        return {"active": active, "loading": len(self._contexts) - active}

    def shard(self, partition: int) -> S:
        """The shard of this partition; ApiError says to look for another coordinator, or to wait."""
        context = self._contexts.get(partition)
        if context is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        if not context.active:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return context.shard

    def leader_epoch(self, partition: int) -> int:
        """The epoch in which this node serves the partition; ApiError where it does not."""
        context = self._contexts.get(partition)
        if context is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        return context.leader_epoch

    def write(
        self,
        partition: int,
        records: Sequence[CoordinatorRecord],
        done: Done,
        *,
        replay: bool = True,
        writer: ProducerIdAndEpoch | None = None,
    ) -> None:
        """Append the records, replay them, and call `done` when all in-sync replicas have them or it
        failed. With a `writer` they are part of that producer's transaction.
        """
        context = self._contexts.get(partition)
        if context is None or not context.active:
            done(ErrorCode.NOT_COORDINATOR)
            return
        now_ms = self._clock.now_ms()
        rows = [_record(record, now_ms) for record in records]
        if writer is None:
            batch = build_batch(rows)
        else:
            batch = build_batch(
                rows, producer_id=writer.producer_id, producer_epoch=writer.epoch, transactional=True
            )
        try:
            result = context.partition.append(
                batch, now_ms=now_ms, origin=AppendOrigin.COORDINATOR, api_version=-1
            )
        except ApiError as error:
            done(APPEND_ERRORS.get(error.code, error.code))
            return
        if replay:
            for record in records:
                if writer is None:
                    context.shard.replay(record.key, record.value)
                else:
                    context.shard.replay_transactional(writer.producer_id, record.key, record.value)
            if self._on_replayed is not None:
                for offset, record in enumerate(records, result.last_offset + 1 - len(records)):
                    self._on_replayed(context.shard, offset, record.key, record.value)
        context.last_written_offset = result.last_offset + 1
        self._defer(context, done)

    def write_marker(self, partition: int, marker: bytearray, done: Done) -> None:
        """Append the marker that ends a transaction in this partition. The error, if any, is as the log has
        it: it goes to the transaction coordinator, not to a client of this one.
        """
        context = self._contexts.get(partition)
        if context is None or not context.active:
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER)  # not yet, or not any more: to be asked again
            return
        now_ms = self._clock.now_ms()
        try:
            result = context.partition.append(
                marker, now_ms=now_ms, origin=AppendOrigin.COORDINATOR, api_version=-1
            )
        except ApiError as error:
            done(error.code)
            return
        _replay_marker(context.shard, read_header(marker), memoryview(marker))
        context.last_written_offset = result.last_offset + 1
        self._defer(
            context, lambda error: done(ErrorCode.NOT_LEADER_OR_FOLLOWER if error else ErrorCode.NONE)
        )

    def when_committed(self, partition: int, done: Done, *, asks_followers: bool = False) -> None:
        """Call `done` when all that was written so far is replicated: an answer that rests on it may leave
        then. With `asks_followers` nobody else can have written more meanwhile: this node still leads.
        """
        context = self._contexts.get(partition)
        if context is None:
            done(ErrorCode.NOT_COORDINATOR)
        else:
            self._defer(context, done, context.partition.ask_followers() if asks_followers else 0)

    def _defer(self, context: CoordinatorContext[S], done: Done, question: int = 0) -> None:
        deadline_ms = self._clock.monotonic_ms() + self._wait_ms_max
        event = _DeferredEvent(context.last_written_offset, done, deadline_ms, question)
        if event.is_committed(context.partition):
            done(ErrorCode.NONE)
            return
        (context.deferred_reads if question else context.deferred_writes).append(event)
        self._schedule_expiration(context)

    def _schedule_expiration(self, context: CoordinatorContext[S]) -> None:
        first = [queue[0].deadline_ms for queue in (context.deferred_writes, context.deferred_reads) if queue]
        if context.deferred_timer is None and first and self._wait_ms_max < inf:
            left_ms = min(first) - self._clock.monotonic_ms()
            context.deferred_timer = self._loop.call_later(
                max(1, left_ms) / 1000, self._expire_deferred, context
            )

    def _expire_deferred(self, context: CoordinatorContext[S]) -> None:
        """Answer the events whose deadline is over."""
        context.deferred_timer = None
        now_ms = self._clock.monotonic_ms()
        for queue in (context.deferred_writes, context.deferred_reads):
            while queue and queue[0].deadline_ms <= now_ms:
                queue.popleft().done(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self._schedule_expiration(context)

    def on_high_watermark_updated(self, topic_partition: TopicPartition) -> None:
        """The partition's high watermark may have moved: answer the writes it covers."""
        context = self._contexts.get(topic_partition.partition)
        if context is None or topic_partition.topic != self.topic:
            return
        for queue in (context.deferred_writes, context.deferred_reads):
            while queue and queue[0].is_committed(context.partition):
                queue.popleft().done(ErrorCode.NONE)

    def on_leadership_change(self, partition: Partition) -> None:
        """Leadership may have changed: load what this node now leads, unload what it does not."""
        index = partition.topic_partition.partition
        context = self._contexts.get(index)
        if not partition.is_leader:
            self.unload(index)
        elif context is None or context.partition is not partition:
            self.unload(index)
            self._load(index, partition)
        else:
            context.leader_epoch = partition.leader_epoch

    def unload(self, index: int) -> None:
        """Stop serving a partition whose leadership is gone."""
        context = self._contexts.pop(index, None)
        if context is None:
            return
        if context.deferred_timer is not None:
            context.deferred_timer.cancel()
        for queue in (context.deferred_writes, context.deferred_reads):
            for event in queue:
                event.done(ErrorCode.NOT_COORDINATOR)
            queue.clear()
        context.shard.on_unloaded()

    def unload_all(self) -> None:
        for index in list(self._contexts):
            self.unload(index)

    def _load(self, index: int, partition: Partition) -> None:
        context = CoordinatorContext(partition, self._make_shard(index), partition.leader_epoch)
        self._contexts[index] = context
        self._load_step(index, context, None)

    def _load_step(self, index: int, context: CoordinatorContext[S], offset: int | None) -> None:
        """Replay a piece of the log, and the rest a turn of the loop later. What cannot be read cannot be
        served: clients are sent to look for another coordinator.
        """
        if self._contexts.get(index) is not context:
            return  # leadership went away while this was loading
        try:
            next_offset = self._load_piece(context, offset)
        except (ApiError, InvalidBytesError) as error:
            logger.error("%s cannot be loaded: %s", context.partition.topic_partition, error)
            self.unload(index)
            return
        if next_offset is None:
            self._activate(context)
        else:
            self._loop.call_soon(self._load_step, index, context, next_offset)

    def _load_piece(self, context: CoordinatorContext[S], offset: int | None) -> int | None:
        """Where the next piece begins; None at the end."""
        log = context.partition.local_log()
        end = log.log_end_offset
        offset = log.log_start_offset if offset is None else max(offset, log.log_start_offset)
        read = log.read(offset, max_bytes=LOAD_BYTES, max_offset=end, at_least_one=True)
        data = b"" if isinstance(read.chunk, bytes) else read.chunk.read()
        for position, header in batches(data):
            if header.last_offset >= offset:
                batch = memoryview(data)[position : position + header.size]
                if not crc_matches(batch, 0, header):
                    # One batch of many: the rest of what groups and transactions have is still served.
                    note_damaged(
                        log,
                        header.base_offset,
                        header.last_offset,
                        "a coordinator passes over them, by their CRC",
                    )
                elif header.is_control:
                    _replay_marker(context.shard, header, batch)
                else:
                    self._replay_batch(context, header, batch)
            offset = header.next_offset
        return None if not data or offset >= end else offset

    def _replay_batch(self, context: CoordinatorContext[S], header: BatchHeader, batch: memoryview) -> None:
        for record in read_records(batch):
            if record.key is None:
                continue
            try:
                key = decode_key(record.key, self._family)
                value = decode_value(key, record.value, self._family)
            except UnknownRecordError:
                logger.warning(
                    "%s offset %d: a record type of a newer version was skipped",
                    context.partition.topic_partition,
                    record.offset,
                )
                continue
            if header.is_transactional:
                context.shard.replay_transactional(header.producer_id, key, value)
            else:
                context.shard.replay(key, value)
            if self._on_replayed is not None:
                self._on_replayed(context.shard, record.offset, key, value)

    def _activate(self, context: CoordinatorContext[S]) -> None:
        context.active = True
        context.last_written_offset = context.partition.local_log().log_end_offset
        context.shard.on_loaded()
        self._on_active()


def _replay_marker(shard: CoordinatorShard, header: BatchHeader, batch: memoryview) -> None:
    if header.producer_id < 0 or not header.record_count:
        return
    kind = read_txn_marker(batch)[0]
    if kind in (ControlType.COMMIT, ControlType.ABORT):
        shard.replay_end_transaction_marker(header.producer_id, committed=kind is ControlType.COMMIT)


def _record(record: CoordinatorRecord, now_ms: int) -> Record:
    value = None if record.value is None else encode_value(record.value, record.version)
    return Record(0, now_ms, encode_key(record.key), value, ())
