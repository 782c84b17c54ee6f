"""The remote tier of a node's partitions: copying, removing, and knowing how far each is.

Once a second every tiered partition is looked at, which costs little where nothing is to be done. Its log is
told how far it is in the remote store (`tiered_to`), on leaders and followers alike. Where this node leads,
rounds run beside everything else: one that copies (`tiered.copying`), as many at once as
`remote.log.manager.copier.thread.pool.size` says, and one that removes (`tiered.removal`), bounded by
`remote.log.manager.expiration.thread.pool.size`. Now and then it looks for objects that have no record.

A leader that takes over finds out what its predecessors did before it does anything (`tier_take_over`), and
until then consumers are not told where the log starts (`Partition.knows_start`): so it begins at once.

A round that failed is tried again after a pause that grows. Threads are of an executor of their own: a store
that is slow must not keep a log from being synced.
"""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from headrace.base.errors import ApiError, InvalidBytesError
from headrace.base.ids import TopicPartition, new_uuid
from headrace.log.partition_log import PartitionLog
from headrace.replication.partition import Partition
from headrace.replication.replicas import Replicas
from headrace.replication.tier_compaction import TierCompaction
from headrace.replication.tier_rounds import TierRounds
from headrace.replication.tier_take_over import settle, take_over
from headrace.settings.broker_config import BrokerConfig
from headrace.tiered.compaction import RemoteCleanable, look_at
from headrace.tiered.copying import copy, describe, next_to_copy, stored_to
from headrace.tiered.custom_metadata import NoteTooLargeError
from headrace.tiered.remote_log import RemoteLog
from headrace.tiered.remote_segment import RemoteSegment, SegmentState, TopicIdPartition
from headrace.tiered.removal import Removals, first_remote, give_up, remove
from headrace.tiered.store import RemoteStoreError

logger = logging.getLogger(__name__)

LOOK_S: Final = 1.0
NEXT_S: Final = 0.02
"""After the end of a round, when others may begin: their ends come in swarms."""
STOP_S: Final = 30.0
"""How long a stop waits for a store that does not answer."""
SWEEP_S: Final = 600.0
"""How long after the last time a partition's objects are compared with its records."""


class Kind(Enum):
    """Kinds of rounds; a partition has one of each at most."""

    TAKE_OVER = "take over"
    COPY = "copy"
    REMOVE = "remove"
    COMPACT = "compact"


TAKE_OVERS_MAX: Final = 100
"""At once: each is a question to the leader of the records, and perhaps a read."""

LIMITS: Final = {
    Kind.COPY: "remote.log.manager.copier.thread.pool.size",
    Kind.REMOVE: "remote.log.manager.expiration.thread.pool.size",
}
_BACKOFF_MAX_MS: Final = "remote.log.manager.task.retry.backoff.max.ms"


@dataclass(slots=True)
class _Tended:
    """What is remembered of a partition between two looks."""

    versions: tuple[int, int] = (-1, -1)
    is_refused: bool = False  # in this leadership the store's note was too large; Kafka gives up as well
    looked_at: tuple[int, int, bool] = (-1, -1, False)
    look_at_s: float = 0.0
    sweep_at_s: float = 0.0
    failures: int = 0
    not_before_s: float = 0.0
    copy_at_s: float = 0.0
    take_over_at_s: float = 0.0
    compact_at: int = -1
    rounds: "dict[Kind, asyncio.Task[None]]" = field(default_factory=dict)
    in_progress: set[bytes] = field(default_factory=set)
    takes_back: bool = False  # a round removes everything, because tiering was turned off
    replaced_at_s: dict[bytes, float] = field(default_factory=dict)


class Tiering:
    """The rounds under way, and how far each partition is."""

    def __init__(
        self,
        rounds: TierRounds,
        *,
        replicas: Replicas,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        rng: random.Random,
    ) -> None:
        self._rounds = rounds
        self._records = rounds.records
        self._store = rounds.store
        self._teller = rounds.teller
        self._replicas = replicas
        self._config = config
        self._loop = loop
        self._rng = rng
        self._compaction = TierCompaction(rounds, config, rng)
        self._running: Counter[Kind] = Counter()
        self._next_look: asyncio.TimerHandle | None = None
        self._tended: dict[TopicIdPartition, _Tended] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._stopping = False

    # -- running ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._look_again()

    async def stop(self) -> None:
        """Begin nothing more, and return once no thread works on a round."""
        self.abandon()
        rounds = [task for tended in self._tended.values() for task in tended.rounds.values()]
        if rounds:
            await asyncio.wait(rounds, timeout=STOP_S)

    def abandon(self) -> None:
        self._stopping = True
        for timer in (self._timer, self._next_look):
            if timer is not None:
                timer.cancel()

    def held(self) -> list[TopicIdPartition]:
        """The partitions here whose remote segments must be known."""
        return [_name(partition) for partition in self._replicas if _is_tiered(partition.log)]

    def _look_again(self) -> None:
        interval_s = self._config.int("remote.log.manager.task.interval.ms") / 1000
        self._timer = self._loop.call_later(min(LOOK_S, interval_s), self._look_again)
        self.look()

    def look(self) -> None:
        """Tell the logs how far they are, and begin what there is to do."""
        if self._stopping:
            return
        seen = set()
        for partition in list(self._replicas):
            if _is_tiered(partition.log):
                name = _name(partition)
                seen.add(name)
                self._look_at(partition, name, self._tended.setdefault(name, _Tended()))
            elif partition.is_leader:
                _start_here(partition)
        for name in self._tended.keys() - seen:
            if not self._tended[name].rounds:
                del self._tended[name]

    def look_soon(self) -> None:
        """Settings have changed, or a round has ended, and others may begin."""
        if self._next_look is None and not self._stopping:
            self._next_look = self._loop.call_later(NEXT_S, self._look_on)

    def note(self, name: TopicIdPartition) -> None:
        """Records about a partition were read, or all of them: it may be known now."""
        partition = self._replicas.get(name.topic_partition)
        tended = self._tended.get(name)
        if partition is not None and tended is not None and partition.topic_id == name.topic_id:
            if partition.is_leader and not partition.knows_remote:
                self._look_at(partition, name, tended)
            else:
                self._follow(partition, name, tended)

    def note_leader(self, topic_partition: TopicPartition) -> None:
        """The cluster has changed there: this node may lead it from now on."""
        partition = self._replicas.get(topic_partition)
        if partition is None or not partition.is_leader or partition.knows_remote or self._stopping:
            return
        if _is_tiered(partition.log):
            name = _name(partition)
            self._look_at(partition, name, self._tended.setdefault(name, _Tended()))

    def _follow(self, partition: Partition, name: TopicIdPartition, tended: _Tended) -> RemoteLog | None:
        """Tell the log how far it is in the remote store."""
        log, remote = partition.log, self._records.logs.get(name)
        if log is None or remote is None:
            return None
        versions = remote.version, log.epochs.version
        # Of a copy that is going nobody counts on the store, also where tiering is turned on again meanwhile.
        counts = log.config.remote_storage_enable and not tended.takes_back
        if versions != tended.versions or counts is (log.tiered_to is None):
            tended.versions = versions
            if partition.knows_remote:
                settle(partition, log, remote)
            if counts:
                log.tiered_from = first_remote(log, remote)
                log.copied_to, log.removed_to = remote.end_offset(log.epochs) or 0, remote.removed_to
                log.tiered_to = stored_to(log, remote)
            else:
                log.tiered_to = None
        return remote

    def _look_at(self, partition: Partition, name: TopicIdPartition, tended: _Tended) -> None:
        remote = self._follow(partition, name, tended)
        if remote is None or not partition.is_leader:
            return
        log = partition.local_log() if partition.log and partition.log.failure is None else None
        if log is None:
            return
        if partition.knows_remote:
            self._begin_what_is_due(partition, log, remote, name, tended)
        elif self._may_begin(Kind.TAKE_OVER, tended) and self._loop.time() >= tended.take_over_at_s:
            self._begin(Kind.TAKE_OVER, self._take_over(partition, name, tended), name, tended)

    def _begin_what_is_due(
        self,
        partition: Partition,
        log: PartitionLog,
        remote: RemoteLog,
        name: TopicIdPartition,
        tended: _Tended,
    ) -> None:
        now_s = self._loop.time()
        if now_s < tended.not_before_s:
            return
        if self._may_begin(Kind.REMOVE, tended) and self._removal_is_due(log, remote, tended, now_s):
            self._begin(Kind.REMOVE, self._remove_all(partition, name, tended), name, tended)
        if tended.is_refused:
            return
        may_copy = now_s >= tended.copy_at_s and self._may_begin(Kind.COPY, tended)
        if may_copy and next_to_copy(log) is not None:
            self._begin(Kind.COPY, self._copy_all(partition, name, tended), name, tended)
        if log.config.compacts and self._may_begin(Kind.COMPACT, tended):
            found = None if tended.compact_at == remote.version else look_at(log, remote)
            tended.compact_at = remote.version
            if found is not None:
                self._begin(Kind.COMPACT, self._compact(partition, found, remote, tended), name, tended)

    def _may_begin(self, kind: Kind, tended: _Tended) -> bool:
        if kind in LIMITS:
            limit = self._config.int(LIMITS[kind])
        else:
            limit = TAKE_OVERS_MAX if kind is Kind.TAKE_OVER else 1
        return kind not in tended.rounds and self._running[kind] < limit

    def _removal_is_due(self, log: PartitionLog, remote: RemoteLog, tended: _Tended, now_s: float) -> bool:
        """By the interval, and at once where a leadership, the records or the log's start are new, or tiering
        was turned off or on.
        """
        return now_s >= tended.look_at_s or _looked_at(log, remote) != tended.looked_at

    # -- rounds ----------------------------------------------------------------------------------------------

    def _begin(
        self, kind: Kind, round_: Coroutine[Any, Any, None], name: TopicIdPartition, tended: _Tended
    ) -> None:
        task = tended.rounds[kind] = self._loop.create_task(self._guard(kind, round_, name, tended))
        self._running[kind] += 1
        task.add_done_callback(lambda _: self._ended(kind, tended))

    async def _guard(
        self, kind: Kind, round_: Coroutine[Any, Any, None], name: TopicIdPartition, tended: _Tended
    ) -> None:
        try:
            await round_
            tended.failures = 0
        except NoteTooLargeError as error:
            tended.is_refused = True
            logger.error("%s: nothing more is copied to the remote tier: %s", name, error)
        except (RemoteStoreError, ApiError, OSError, InvalidBytesError) as error:
            self._put_off(kind, tended)
            logger.warning(
                "%s: to %s in the remote tier failed, and is tried again: %s", name, kind.value, error
            )
        except Exception:
            self._put_off(kind, tended)  # a fault of ours must not be met again and again
            logger.exception("%s: to %s in the remote tier", name, kind.value)

    def _put_off(self, kind: Kind, tended: _Tended) -> None:
        tended.failures += 1
        first_ms = self._config.int("remote.log.manager.task.retry.backoff.ms")
        most_ms = self._config.int(_BACKOFF_MAX_MS)
        jitter = self._config.float("remote.log.manager.task.retry.jitter")
        wait_ms = min(first_ms * 2.0 ** min(tended.failures - 1, 20), most_ms)
        again_s = self._loop.time() + wait_ms * self._rng.uniform(1 - jitter, 1 + jitter) / 1000
        if kind is Kind.TAKE_OVER:
            tended.take_over_at_s = again_s
        else:
            tended.not_before_s = again_s

    def _ended(self, kind: Kind, tended: _Tended) -> None:
        del tended.rounds[kind]
        self._running[kind] -= 1
        self.look_soon()

    def _look_on(self) -> None:
        self._next_look = None
        self.look()

    def _leads(self, partition: Partition) -> Callable[[], bool]:
        """Whether this node leads the partition in the same epoch as now."""
        epoch = partition.leader_epoch

        def leads() -> bool:
            return (
                not self._stopping
                and partition.is_leader
                and partition.leader_epoch == epoch
                and self._replicas.get(partition.topic_partition) is partition
            )

        return leads

    async def _take_over(self, partition: Partition, name: TopicIdPartition, tended: _Tended) -> None:
        if await take_over(partition, name, self._rounds, self._leads(partition)):
            tended.is_refused = False
            tended.look_at_s = tended.sweep_at_s = 0.0

    async def _copy_all(self, partition: Partition, name: TopicIdPartition, tended: _Tended) -> None:
        leads = self._leads(partition)
        remote = self._records.logs.get(name)
        while leads() and remote is not None and partition.log is not None and partition.log.failure is None:
            found, tiered_to = next_to_copy(partition.log), partition.log.tiered_to
            if found is None:
                return
            if not await self._rounds.hold_back(found.segment.size, leads):
                return
            again = next_to_copy(found.log)
            if again is None or again.segment is not found.segment:
                continue  # it was a long wait: deleted, cleaned or truncated meanwhile
            new = describe(again, name, new_uuid(self._rng), self._teller)
            tended.in_progress.add(new.segment_id)
            try:
                steps = copy(
                    again,
                    new,
                    remote=remote,
                    store=self._store,
                    teller=self._teller,
                    is_leading=leads,
                    note_bytes_max=self._config.int("remote.log.metadata.custom.metadata.max.bytes"),
                )
                is_copied = await self._rounds.run(steps, leads)
            finally:
                tended.in_progress.discard(new.segment_id)
            self._follow(partition, name, tended)
            if not is_copied:
                return
            logger.info("copied %s, %.1f MB", new, new.size / 1e6)
            if leads() and found.log.tiered_to == tiered_to:
                self._rest_from_copying(new, found.log, tended)
                return

    def _rest_from_copying(self, new: RemoteSegment, log: PartitionLog, tended: _Tended) -> None:
        """What was copied would be copied again and again."""
        tended.copy_at_s = self._loop.time() + self._config.int(_BACKOFF_MAX_MS) / 1000
        logger.error("the copy %s does not count as one of its log, of which %r is known", new, log.epochs)

    async def _compact(
        self, partition: Partition, found: RemoteCleanable, remote: RemoteLog, tended: _Tended
    ) -> None:
        made: list[bytes] = []

        def new_id() -> bytes:
            made.append(new_uuid(self._rng))
            tended.in_progress.add(made[-1])
            return made[-1]

        try:
            await self._compaction.run(found, remote, new_id=new_id, leads=self._leads(partition))
        finally:
            tended.in_progress.difference_update(made)
            tended.compact_at = -1  # there may be more to do, or the same again

    def _still_read(self, log: PartitionLog, remote: RemoteLog, tended: _Tended) -> set[bytes]:
        """Segments that were replaced a moment ago: who reads them may finish, as with local files."""
        now_s, delay_s = self._loop.time(), log.config.file_delete_delay_ms / 1000
        replaced = {segment.segment_id for segment in remote.replaced()}
        tended.replaced_at_s = {each: tended.replaced_at_s.get(each, now_s) for each in replaced}
        return {each for each, at_s in tended.replaced_at_s.items() if now_s < at_s + delay_s}

    async def _remove_all(self, partition: Partition, name: TopicIdPartition, tended: _Tended) -> None:
        try:
            await self._remove(partition, name, tended)
        finally:
            tended.takes_back = False

    async def _remove(self, partition: Partition, name: TopicIdPartition, tended: _Tended) -> None:
        leads = self._leads(partition)
        log, remote = partition.local_log(), self._records.logs.get(name)
        if remote is None:
            return
        tended.looked_at = _looked_at(log, remote)
        is_on = log.config.remote_storage_enable
        tended.takes_back = not is_on
        spared = tended.in_progress | self._still_read(log, remote, tended)
        found = Removals.of(log, remote, now_ms=self._teller.now_ms(), in_progress=spared)
        mark = found.mark(log)
        if found.log_start > log.log_start_offset and not (mark and found.tells_start):
            log.advance_log_start(min(found.log_start, log.high_watermark))
            partition.on_advance(partition.topic_partition)
        for segment in found.segments:
            if segment.state is SegmentState.COPY_STARTED:
                steps = give_up(segment, remote, self._store, self._teller)
            else:
                steps = remove(segment, self._store, self._teller, mark)
            if log.config.remote_storage_enable is not is_on or not await self._rounds.run(steps, leads):
                return
        if self._loop.time() >= tended.sweep_at_s:
            await self._rounds.sweep(name, remote, leads)
            tended.sweep_at_s = self._loop.time() + SWEEP_S
        tended.looked_at = remote.version, log.log_start_offset, is_on
        interval_s = self._config.int("remote.log.manager.task.interval.ms") / 1000
        tended.look_at_s = self._loop.time() + interval_s


def _name(partition: Partition) -> TopicIdPartition:
    return TopicIdPartition(partition.topic_id, partition.topic_partition)


def _is_tiered(log: PartitionLog | None) -> bool:
    return log is not None and log.config.is_tiered


def _looked_at(log: PartitionLog, remote: RemoteLog) -> tuple[int, int, bool]:
    """What decides on removals, besides the time."""
    return remote.version, log.log_start_offset, log.config.remote_storage_enable


def _start_here(partition: Partition) -> None:
    """Have a log that is tiered no more start on this disk: what lies before it in the store is going."""
    log = partition.log
    if log is not None and log.failure is None and log.log_start_offset < log.segments.first.base_offset:
        log.advance_log_start(min(log.segments.first.base_offset, log.high_watermark))
        partition.on_advance(partition.topic_partition)
