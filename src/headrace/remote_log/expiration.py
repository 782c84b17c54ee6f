"""Expiration of remote segments: which of them have to go, and how they go.

A removal is announced, done, and told to be done (`remove`), so that a crash in between is finished by
whoever leads next. What has to go (`DeletableSegments.of`):

- what lies below the log's start: deleted records, or older than `retention.ms` or beyond `retention.bytes`,
  which hold for both tiers together. The announcement says where the log starts from then on, and there it
  starts as soon as that is read: nobody is sent to what is going, and no crash brings it back;
- copies of a lineage that lost: a leader elected uncleanly has other records at those offsets. Where it has
  none, its own epochs are in doubt (`lineage`), and nothing goes;
- copies whose place another has taken;
- everything, once tiering is turned off; the last ones first. Turned on again before all are gone, those
  that are left reach up to some offset without a hole, and copying goes on from there;
- what is left of copies that were not finished and of removals that were not finished. A copy of another
  leader is given up first, so that it cannot be finished meanwhile (see `tiered.metadata_cache`).
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from headrace.base.ids import uuid_text
from headrace.base.internal_topics import REMOTE_LOG_TOPIC
from headrace.log.unified_log import UnifiedLog
from headrace.remote_log.core.lineage import first_there, is_known, is_missed
from headrace.remote_log.core.partition_state import ExpirationInput, RemotePartitionState
from headrace.remote_log.steps import IsWanted, Publisher, StepRunner, Steps
from headrace.replication.partition import Partition
from headrace.settings.broker_config import BrokerConfig
from headrace.tiered.metadata_cache import RemoteLogMetadataCache, lineage_end
from headrace.tiered.remote_storage import RemoteStorageManager, begun, store_of
from headrace.tiered.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
    partition_prefix,
    segment_id_in,
    start_mark,
)

logger = logging.getLogger(__name__)

SWEEP_S: Final = 600.0
"""How long after the last time a partition's objects are compared with its records."""


def remove(
    segment: RemoteLogSegmentMetadata,
    store: RemoteStorageManager,
    publisher: Publisher,
    mark: bytes | None = None,
) -> Steps:
    """Remove a segment that nobody may read or finish any more. `mark` tells where the log starts then."""
    is_told = segment.state is RemoteLogSegmentState.DELETE_STARTED or (
        yield publisher.update(segment, RemoteLogSegmentState.DELETE_STARTED, mark)
    )
    if not is_told:
        return False
    yield partial(delete_objects, store, segment)
    return bool((yield publisher.update(segment, RemoteLogSegmentState.DELETE_FINISHED)))


def give_up(
    segment: RemoteLogSegmentMetadata,
    remote: RemoteLogMetadataCache,
    store: RemoteStorageManager,
    publisher: Publisher,
) -> Steps:
    """Remove what is left of a copy, unless it turns out to be finished."""
    if not remote.is_given_up(segment):
        if not (yield publisher.give_up(segment)):
            return False
        if not remote.is_given_up(segment):
            return True
    return (yield from remove(segment, store, publisher))


def delete_objects(store: RemoteStorageManager, segment: RemoteLogSegmentMetadata) -> int:
    store_of(store, segment).delete(segment.object_names())
    return 0


@dataclass(frozen=True, slots=True)
class DeletableSegments:
    """Where the log is to start, and what has to go then."""

    log_start: int
    segments: tuple[RemoteLogSegmentMetadata, ...] = ()

    @property
    def tells_start(self) -> bool:
        """Whether a segment goes because the log starts behind it: its announcement tells that."""
        return any(
            segment.state is RemoteLogSegmentState.COPY_FINISHED and segment.end_offset < self.log_start
            for segment in self.segments
        )

    def mark(self, log: UnifiedLog) -> bytes | None:
        """What the announcements tell of the log's start."""
        if (
            not log.config.remote_storage_enable
            or log.leader_epoch_cache.epoch_for_offset(self.log_start - 1) < 0
        ):
            return None
        return start_mark(self.log_start, log.leader_epoch_cache.epoch_for_offset(self.log_start - 1))

    @classmethod
    def of(
        cls,
        log: UnifiedLog,
        remote: RemoteLogMetadataCache,
        *,
        now_ms: int,
        in_progress: Collection[bytes] = (),
    ) -> "DeletableSegments":
        """What the leader of a tiered partition has to do now. `in_progress` are ids of copies that it is at
        itself.
        """
        if not log.config.remote_storage_enable:
            doomed_all = _left_alone(remote, in_progress, lambda _: True)
            return cls(log.local_start_offset, tuple(reversed(doomed_all)))
        readable = [
            (segment, lineage_end(log.leader_epoch_cache, segment))
            for segment in remote.readable(log.leader_epoch_cache)
        ]
        start = first_there(log, remote)
        if log.config.deletes:
            start = _first_kept(log, readable, start, now_ms)
        doomed = {segment.segment_id for segment in remote.replaced()}
        doomed.update(segment.segment_id for segment, end in readable if end <= start)
        if is_known(log):
            latest = log.leader_epoch_cache.latest_epoch
            own = {segment.segment_id for segment, _ in readable}
            doomed.update(
                other.segment_id
                for other in remote.finished()
                if other.segment_id not in own
                and other.epochs[-1][0] <= latest  # else of a leader that this one does not know of yet
                and not is_missed(log, remote, other)
            )
        return cls(start, tuple(_left_alone(remote, in_progress, doomed.__contains__)))


Readable = list[tuple[RemoteLogSegmentMetadata, int]]
"""Segments of the log's lineage, by start offset, and where each of them ends in it."""


def _left_alone(
    remote: RemoteLogMetadataCache, in_progress: Collection[bytes], is_doomed: Callable[[bytes], bool]
) -> list[RemoteLogSegmentMetadata]:
    """Doomed copies, and everything that was begun and is nobody's work now; by offset."""
    found = [
        segment
        for segment in remote
        if segment.segment_id not in in_progress
        and (segment.state is not RemoteLogSegmentState.COPY_FINISHED or is_doomed(segment.segment_id))
    ]
    return sorted(found, key=lambda segment: segment.start_offset)


def _first_kept(log: UnifiedLog, readable: Readable, start: int, now_ms: int) -> int:
    """Where the log starts once what the settings no longer keep has gone."""
    config = log.config
    if config.retention_ms >= 0:
        for segment, end in readable:
            if now_ms - segment.max_timestamp <= config.retention_ms:
                break
            start = max(start, end)
    if config.retention_bytes >= 0:
        over_bytes = _bytes_in_both(log, readable, start) - config.retention_bytes
        for segment, end in readable:
            if end <= start:
                continue
            over_bytes -= segment.size
            if over_bytes < 0:
                break
            start = end
    return min(start, log.high_watermark)


def _bytes_in_both(log: UnifiedLog, readable: Readable, start: int) -> int:
    """Remote bytes from `start` on, and local ones of what is not in the remote store."""
    tiered_to = max((end for _, end in readable), default=0)
    local = sum(segment.size for segment in log.segments if segment.base_offset >= tiered_to)
    return local + sum(segment.size for segment, end in readable if end > start)


def orphans(names: Iterable[str], remote: RemoteLogMetadataCache) -> list[str]:
    """Of the names of a partition's objects in the store, those that belong to no segment that is known.

    The records must have been read to their end after the names were listed: a copy is announced before its
    first object is put. So an object whose segment is not known was put by somebody who was slower than the
    removal of what it was at, and the records tell of that removal. Where they do not even mention the
    segment, they are not all there, and the object may be the only one that has its records: see
    `OrphanSweep`.
    """
    known = {uuid_text(segment.segment_id) for segment in remote}
    return [name for name in names if segment_id_in(name) not in known]


class OrphanSweep:
    """Removes objects whose segment was removed: put by somebody who did not know that another leads."""

    def __init__(self, runner: StepRunner) -> None:
        self._runner = runner
        self._unmentioned: dict[TopicIdPartition, set[str]] = {}  # ids of segments without any record

    async def run(
        self,
        name: TopicIdPartition,
        remote: RemoteLogMetadataCache,
        is_wanted: IsWanted,
        *,
        is_deleted: bool = False,
    ) -> None:
        """Compare the objects of a partition with its records, and remove those that nobody knows.

        A removal that was told is all that makes an object superfluous, unless the topic `is_deleted`: then
        everything is. Records can be lost, with a disk or a retention of their own, and then there are
        objects of which they tell nothing. Those are kept.
        """
        names = await self._runner.in_thread(lambda: begun(self._runner.store, partition_prefix(name)))
        if not names or not await self._runner.metadata.catch_up(name, is_wanted):
            return
        lost = orphans(names, remote)
        if not is_deleted:
            lost = await self._known_removed(name, lost, is_wanted)
        if lost:
            logger.warning("%d objects of %s belong to no segment: removing them", len(lost), name)
            await self._runner.in_thread(lambda: self._runner.store.delete(lost))

    async def _known_removed(
        self, name: TopicIdPartition, objects: list[str], is_wanted: IsWanted
    ) -> list[str]:
        """Of objects without a segment, those whose removal the records tell of. The others are kept, and
        named once.
        """
        ids = {segment_id_in(each) for each in objects}
        known = self._unmentioned.pop(name, set()) & ids
        told = await self._runner.metadata.search_for(name, ids - known, is_wanted) if ids - known else {}
        if told is None:
            return []
        news = ids - known - told.keys()
        if known | news:
            self._unmentioned[name] = known | news
        if news:
            those = [each for each in objects if segment_id_in(each) in news]
            logger.error(
                "%s: %s has no record of %d objects in the remote store (%s and others). Each of them was"
                " announced there, so records were lost. The objects are kept, and cannot be read: bring the"
                " records back, or remove the objects yourself if nobody needs them",
                name,
                REMOTE_LOG_TOPIC,
                len(those),
                those[0],
            )
        return [each for each in objects if told.get(segment_id_in(each))]


class RemoteLogExpiration:
    """Removes what has to go of a partition: Kafka's RLMExpirationTask."""

    def __init__(
        self,
        runner: StepRunner,
        sweep: OrphanSweep,
        *,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._runner = runner
        self._sweep = sweep
        self._config = config
        self._loop = loop

    async def run(
        self, partition: Partition, name: TopicIdPartition, state: RemotePartitionState, leads: IsWanted
    ) -> None:
        try:
            await self._run(partition, name, state, leads)
        finally:
            state.is_removing_all = False

    async def _run(
        self, partition: Partition, name: TopicIdPartition, state: RemotePartitionState, leads: IsWanted
    ) -> None:
        log, remote = partition.local_log(), self._runner.metadata.logs.get(name)
        if remote is None:
            return
        state.begin_expiration(expiration_input(log, remote))
        is_on = log.config.remote_storage_enable
        found = self._find(log, remote, state)
        mark = found.mark(log)
        if found.log_start > log.log_start_offset and not (mark and found.tells_start):
            log.maybe_increment_log_start_offset(min(found.log_start, log.high_watermark))
            partition.on_advance(partition.topic_partition)
        for segment in found.segments:
            if log.config.remote_storage_enable is not is_on:
                return
            if not await self._runner.run(self._removal(segment, remote, mark), leads):
                return
        if state.is_sweep_due(self._loop.time()):
            await self._sweep.run(name, remote, leads)
            state.end_sweep(self._loop.time() + SWEEP_S)
        interval_s = self._config.int("remote.log.manager.task.interval.ms") / 1000
        looked_at = ExpirationInput(remote.version, log.log_start_offset, is_on)
        state.end_expiration(looked_at, self._loop.time() + interval_s)

    def _find(
        self, log: UnifiedLog, remote: RemoteLogMetadataCache, state: RemotePartitionState
    ) -> DeletableSegments:
        replaced = {segment.segment_id for segment in remote.replaced()}
        delay_s = log.config.file_delete_delay_ms / 1000
        spared = state.in_progress | state.still_read(replaced, self._loop.time(), delay_s)
        return DeletableSegments.of(log, remote, now_ms=self._runner.publisher.now_ms(), in_progress=spared)

    def _removal(
        self, segment: RemoteLogSegmentMetadata, remote: RemoteLogMetadataCache, mark: bytes | None
    ) -> Steps:
        store, publisher = self._runner.store, self._runner.publisher
        if segment.state is RemoteLogSegmentState.COPY_STARTED:
            return give_up(segment, remote, store, publisher)
        return remove(segment, store, publisher, mark)


def expiration_input(log: UnifiedLog, remote: RemoteLogMetadataCache) -> ExpirationInput:
    return ExpirationInput(remote.version, log.log_start_offset, log.config.remote_storage_enable)
