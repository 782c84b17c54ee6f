"""The runtime of every coordinator: decide, write, replay, answer.

A coordinator's state lives in an internal topic. The leader of one of its partitions runs a *machine* over
that partition: a request reads the machine's state and yields records; the runtime appends them, replays
them into the machine, and lets the request be answered once every in-sync replica has them. Loading after a
restart or a change of leader is the same `replay`, over the partition from its start; what was loaded beyond
the high watermark is settled like a write, when the others have it. Who waits for that hears after a while
that it takes too long; it may come true all the same. A machine that lost its partition is thrown away.

Records may be part of a producer's transaction: they are `replay_pending` until its marker, which the
transaction coordinator sends as to any other partition, says what becomes of them.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.base.ids import TopicPartition
from headrace.log.append import Origin
from headrace.records.batch import (
    BatchHeader,
    ControlType,
    Record,
    batches,
    build_batch,
    read_header,
    read_records,
    read_txn_marker,
)
from headrace.replication.partition import Partition
from headrace.wire.record_frames import UnknownRecordError, decode_key, decode_value, encode_key, encode_value

logger = logging.getLogger(__name__)

# One step of loading: long enough to be efficient, short enough that other requests are served in between.
LOAD_BYTES: Final = 1024 * 1024

# What a failed append means to somebody who talks to a coordinator.
APPEND_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}


class CoordinatorRecord(NamedTuple):
    """A key and its value (None deletes), as messages of `wire`; `version` is the value's."""

    key: object
    value: object | None
    version: int = 0


class TxnWriter(NamedTuple):
    """The producer in whose transaction records are written."""

    producer_id: int
    epoch: int


class Machine(Protocol):
    """The state over one partition, changed by replay."""

    def replay(self, key: object, value: object | None) -> None: ...

    def replay_pending(self, producer_id: int, key: object, value: object | None) -> None:
        """A record of an open transaction."""
        ...

    def replay_end(self, producer_id: int, *, committed: bool) -> None:
        """The producer's transaction has ended: its records count from now on, or never."""
        ...

    def loaded(self) -> None:
        """All of the partition was replayed: begin to serve."""
        ...

    def unloaded(self) -> None:
        """Leadership is gone: answer who waits, drop timers."""
        ...


M = TypeVar("M", bound=Machine)
Done = Callable[[ErrorCode], None]


@dataclass(slots=True)
class Shard(Generic[M]):
    """A machine and the partition it lives in."""

    partition: Partition
    machine: M
    leader_epoch: int
    active: bool = False
    written_to: int = 0  # the end of what the machine rests on
    unreplicated: deque["_Waiting"] = field(default_factory=deque)
    unanswered: deque["_Waiting"] = field(default_factory=deque)  # by followers: no write waits behind them
    impatience: asyncio.TimerHandle | None = None


class _Waiting(NamedTuple):
    """Somebody who waits until the log is replicated up to an offset, and until when; with a question, also
    until the followers have answered it."""

    end_offset: int
    done: Done
    until_ms: float
    question: int = 0

    def is_over(self, partition: Partition) -> bool:
        if not partition.replicated_to(self.end_offset):
            return False
        return not self.question or partition.is_followed_since(self.question)


class Runtime(Generic[M]):
    """The machines of all partitions of one internal topic that this node leads.

    `family` is the kind of records it holds: see `wire.record_frames`. `on_active` is told when a machine
    begins to serve, which may be long after its partition was followed. `wait_ms_max` is how long a write is
    waited for; without it, for as long as it takes.
    """

    def __init__(
        self,
        topic: str,
        family: tuple[str, ...],
        *,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        make_machine: Callable[[int], M],
        on_active: Callable[[], None] = lambda: None,
        wait_ms_max: float = inf,
    ) -> None:
        self.topic = topic
        self._family = family
        self._clock = clock
        self._loop = loop
        self._make_machine = make_machine
        self._on_active = on_active
        self._wait_ms_max = wait_ms_max
        self._shards: dict[int, Shard[M]] = {}

    def machines(self) -> list[M]:
        """Every machine that serves now."""
        return [shard.machine for shard in self._shards.values() if shard.active]

    @property
    def loading(self) -> bool:
        return any(not shard.active for shard in self._shards.values())

    def machine(self, partition: int) -> M:
        """The machine of this partition; ApiError says where else to look, or to wait."""
        shard = self._shards.get(partition)
        if shard is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        if not shard.active:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return shard.machine

    def leader_epoch(self, partition: int) -> int:
        """The epoch in which this node serves the partition; ApiError where it does not."""
        shard = self._shards.get(partition)
        if shard is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        return shard.leader_epoch

    def write(
        self,
        partition: int,
        records: Sequence[CoordinatorRecord],
        done: Done,
        *,
        replay: bool = True,
        writer: TxnWriter | None = None,
    ) -> None:
        """Append the records, replay them, and call `done` when all in-sync replicas have them or it
        failed. With a `writer` they are part of its transaction.
        """
        shard = self._shards.get(partition)
        if shard is None or not shard.active:
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
            result = shard.partition.append(batch, now_ms=now_ms, origin=Origin.COORDINATOR, api_version=-1)
        except ApiError as error:
            done(APPEND_ERRORS.get(error.code, error.code))
            return
        if replay:
            for record in records:
                if writer is None:
                    shard.machine.replay(record.key, record.value)
                else:
                    shard.machine.replay_pending(writer.producer_id, record.key, record.value)
        shard.written_to = result.last_offset + 1
        self._when_replicated(shard, done)

    def write_marker(self, partition: int, marker: bytearray, done: Done) -> None:
        """Append the marker that ends a transaction in this partition. The error, if any, is as the log has
        it: who writes markers is no client of this coordinator.
        """
        shard = self._shards.get(partition)
        if shard is None or not shard.active:
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER)  # not yet, or not any more: to be asked again
            return
        now_ms = self._clock.now_ms()
        try:
            result = shard.partition.append(marker, now_ms=now_ms, origin=Origin.COORDINATOR, api_version=-1)
        except ApiError as error:
            done(error.code)
            return
        _replay_marker(shard.machine, read_header(marker), memoryview(marker))
        shard.written_to = result.last_offset + 1
        self._when_replicated(
            shard, lambda error: done(ErrorCode.NOT_LEADER_OR_FOLLOWER if error else ErrorCode.NONE)
        )

    def when_settled(self, partition: int, done: Done, *, asks_followers: bool = False) -> None:
        """Call `done` when all that was written so far is replicated: an answer that rests on it may leave
        then. With `asks_followers` nobody else can have written more meanwhile: this node still leads.
        """
        shard = self._shards.get(partition)
        if shard is None:
            done(ErrorCode.NOT_COORDINATOR)
        else:
            self._when_replicated(shard, done, shard.partition.ask_followers() if asks_followers else 0)

    def _when_replicated(self, shard: Shard[M], done: Done, question: int = 0) -> None:
        until_ms = self._clock.monotonic_ms() + self._wait_ms_max
        waiting = _Waiting(shard.written_to, done, until_ms, question)
        if waiting.is_over(shard.partition):
            done(ErrorCode.NONE)
            return
        (shard.unanswered if question else shard.unreplicated).append(waiting)
        self._set_impatience(shard)

    def _set_impatience(self, shard: Shard[M]) -> None:
        first = [queue[0].until_ms for queue in (shard.unreplicated, shard.unanswered) if queue]
        if shard.impatience is None and first and self._wait_ms_max < inf:
            left_ms = min(first) - self._clock.monotonic_ms()
            shard.impatience = self._loop.call_later(max(1, left_ms) / 1000, self._give_up, shard)

    def _give_up(self, shard: Shard[M]) -> None:
        """Tell those who have waited for too long; who has not has the next look."""
        shard.impatience = None
        now_ms = self._clock.monotonic_ms()
        for queue in (shard.unreplicated, shard.unanswered):
            while queue and queue[0].until_ms <= now_ms:
                queue.popleft().done(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self._set_impatience(shard)

    def on_advance(self, topic_partition: TopicPartition) -> None:
        """The partition's high watermark may have moved: answer the writes it covers."""
        shard = self._shards.get(topic_partition.partition)
        if shard is None or topic_partition.topic != self.topic:
            return
        for queue in (shard.unreplicated, shard.unanswered):
            while queue and queue[0].is_over(shard.partition):
                queue.popleft().done(ErrorCode.NONE)

    def follow(self, partition: Partition) -> None:
        """Leadership may have changed: load what this node now leads, unload what it does not."""
        index = partition.topic_partition.partition
        shard = self._shards.get(index)
        if not partition.is_leader:
            self.drop(index)
        elif shard is None or shard.partition is not partition:
            self.drop(index)
            self._load(index, partition)
        else:
            shard.leader_epoch = partition.leader_epoch

    def drop(self, index: int) -> None:
        """Stop serving a partition whose leadership is gone."""
        shard = self._shards.pop(index, None)
        if shard is None:
            return
        if shard.impatience is not None:
            shard.impatience.cancel()
        for queue in (shard.unreplicated, shard.unanswered):
            for waiting in queue:
                waiting.done(ErrorCode.NOT_COORDINATOR)
            queue.clear()
        shard.machine.unloaded()

    def drop_all(self) -> None:
        for index in list(self._shards):
            self.drop(index)

    def _load(self, index: int, partition: Partition) -> None:
        shard = Shard(partition, self._make_machine(index), partition.leader_epoch)
        self._shards[index] = shard
        self._load_step(index, shard, None)

    def _load_step(self, index: int, shard: Shard[M], offset: int | None) -> None:
        """Replay a piece of the log, and the rest a turn of the loop later. What cannot be read cannot be
        served: who asks is sent elsewhere.
        """
        if self._shards.get(index) is not shard:
            return  # leadership went away while this was loading
        try:
            next_offset = self._load_piece(shard, offset)
        except (ApiError, InvalidBytesError) as error:
            logger.error("%s cannot be loaded: %s", shard.partition.topic_partition, error)
            self.drop(index)
            return
        if next_offset is None:
            self._activate(shard)
        else:
            self._loop.call_soon(self._load_step, index, shard, next_offset)

    def _load_piece(self, shard: Shard[M], offset: int | None) -> int | None:
        """Where the next piece begins; None at the end."""
        log = shard.partition.local_log()
        end = log.log_end_offset
        offset = log.log_start_offset if offset is None else max(offset, log.log_start_offset)
        read = log.read(offset, max_bytes=LOAD_BYTES, max_offset=end, at_least_one=True)
        data = b"" if isinstance(read.chunk, bytes) else read.chunk.read()
        for position, header in batches(data):
            if header.last_offset >= offset:
                batch = memoryview(data)[position : position + header.size]
                if header.is_control:
                    _replay_marker(shard.machine, header, batch)
                else:
                    self._replay_batch(shard, header, batch)
            offset = header.next_offset
        return None if not data or offset >= end else offset

    def _replay_batch(self, shard: Shard[M], header: BatchHeader, batch: memoryview) -> None:
        for record in read_records(batch):
            if record.key is None:
                continue
            try:
                key = decode_key(record.key, self._family)
                value = decode_value(key, record.value, self._family)
            except UnknownRecordError:
                logger.warning(
                    "%s offset %d: a record type of a newer version was skipped",
                    shard.partition.topic_partition,
                    record.offset,
                )
                continue
            if header.is_transactional:
                shard.machine.replay_pending(header.producer_id, key, value)
            else:
                shard.machine.replay(key, value)

    def _activate(self, shard: Shard[M]) -> None:
        shard.active = True
        shard.written_to = shard.partition.local_log().log_end_offset
        shard.machine.loaded()
        self._on_active()


def _replay_marker(machine: Machine, header: BatchHeader, batch: memoryview) -> None:
    if header.producer_id < 0 or not header.record_count:
        return
    kind = read_txn_marker(batch)[0]
    if kind in (ControlType.COMMIT, ControlType.ABORT):
        machine.replay_end(header.producer_id, committed=kind is ControlType.COMMIT)


def _record(record: CoordinatorRecord, now_ms: int) -> Record:
    value = None if record.value is None else encode_value(record.value, record.version)
    return Record(0, now_ms, encode_key(record.key), value, ())
