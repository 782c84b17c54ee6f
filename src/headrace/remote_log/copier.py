"""Copies closed segments to the remote store.

A segment is copied once it is closed and everything in it is decided: it ends at or below the high watermark
and the last stable offset. Oldest first, from `tiered_to` on, so that what is in the store has no holes. With
it go its indexes, its aborted transactions, the producers as they were at its end and the leader epochs up to
there: whoever starts from the store needs no more than that.

A topic may want its newest segments on the disk alone: `remote.copy.lag.ms` and `remote.copy.lag.bytes` have
a segment wait until it is as old, or as far behind the log's end (KIP-1241). The first that waits holds back
all that follow.

The copy is announced, made, and told to be finished. Where a step fails, what is there is removed, and the
segment's turn comes again with another id.

Of a compacted topic only segments go that compaction has been through, each with a mark of how far it had
been: `compactor` goes on from there in the store.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain

from headrace.base.errors import InvalidBytesError
from headrace.base.ids import new_uuid
from headrace.log.checkpoints import encode_epochs
from headrace.log.file_names import INDEX, LOG, SNAPSHOT, TIME_INDEX, TXN_INDEX
from headrace.log.leader_epoch_file_cache import LeaderEpochFileCache
from headrace.log.log_segment import LogSegment
from headrace.log.log_segments import are_in_place
from headrace.log.producer_snapshots import ProducerSnapshots, encode_snapshot
from headrace.log.producer_state_manager import ProducerStateManager
from headrace.log.producer_state_rebuild import restore_producers
from headrace.log.unified_log import UnifiedLog
from headrace.remote_log.core.partition_state import RemotePartitionState
from headrace.remote_log.expiration import delete_objects, remove
from headrace.remote_log.steps import IsWanted, Publish, Publisher, StepRunner, Steps, Work
from headrace.replication.partition import Partition
from headrace.settings.broker_config import BrokerConfig
from headrace.tiered.metadata_cache import RemoteLogMetadataCache
from headrace.tiered.remote_storage import (
    NOTE_BYTES_MAX,
    Finishing,
    RemoteStorageError,
    RemoteStorageManager,
    puts,
)
from headrace.tiered.segment_metadata import (
    EPOCHS,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
    joined,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Copyable:
    """A segment whose turn it is; it ends before `following`."""

    log: UnifiedLog
    segment: LogSegment
    following: int


class RemoteLogCopier:
    """Copies a partition's segments until none is left to copy: Kafka's RLMCopyTask.

    `on_copied` tells the log how far it is after each of them.
    """

    def __init__(
        self,
        runner: StepRunner,
        *,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        rng: random.Random,
        on_copied: Callable[[Partition, TopicIdPartition, RemotePartitionState], object],
    ) -> None:
        self._runner = runner
        self._config = config
        self._loop = loop
        self._rng = rng
        self._on_copied = on_copied

    async def run(
        self, partition: Partition, name: TopicIdPartition, state: RemotePartitionState, leads: IsWanted
    ) -> None:
        remote = self._runner.metadata.logs.get(name)
        while leads() and remote is not None and partition.log is not None and partition.log.failure is None:
            now_ms = self._runner.publisher.now_ms
            found, tiered_to = next_to_copy(partition.log, now_ms()), partition.log.tiered_to
            if found is None:
                return
            if not await self._runner.await_quota(found.segment.size, leads):
                return
            again = next_to_copy(found.log, now_ms())
            if again is None or again.segment is not found.segment:
                continue  # it was a long wait: deleted, cleaned or truncated meanwhile
            new = describe(again, name, new_uuid(self._rng), self._runner.publisher)
            is_copied = await self._copy(again, new, remote, state, leads)
            self._on_copied(partition, name, state)
            if not is_copied:
                return
            logger.info("copied %s, %.1f MB", new, new.size / 1e6)
            if leads() and found.log.tiered_to == tiered_to:
                self._pause(new, found.log, state)
                return

    async def _copy(
        self,
        found: Copyable,
        new: RemoteLogSegmentMetadata,
        remote: RemoteLogMetadataCache,
        state: RemotePartitionState,
        leads: IsWanted,
    ) -> bool:
        state.in_progress.add(new.segment_id)
        try:
            steps = copy(
                found,
                new,
                remote=remote,
                store=self._runner.store,
                publisher=self._runner.publisher,
                is_leading=leads,
                note_bytes_max=self._config.int("remote.log.metadata.custom.metadata.max.bytes"),
            )
            return await self._runner.run(steps, leads)
        finally:
            state.in_progress.discard(new.segment_id)

    def _pause(self, new: RemoteLogSegmentMetadata, log: UnifiedLog, state: RemotePartitionState) -> None:
        """What was copied would be copied again and again."""
        pause_ms = self._config.int("remote.log.manager.task.retry.backoff.max.ms")
        state.pause_copies(self._loop.time() + pause_ms / 1000)
        logger.error(
            "the copy %s does not count as one of its log, of which %r is known", new, log.leader_epoch_cache
        )


def stored_to(log: UnifiedLog, remote: RemoteLogMetadataCache) -> int:
    """How far everything on this disk is in the remote store. A copy in the middle may have gone: it was made
    while the file of leader epochs was damaged, and seemed another's when that was mended. What it had must
    not leave the disk for the sake of copies behind it.
    """
    segments = log.segments
    at = max(segments.first.base_offset, log.log_start_offset)
    while True:
        at = remote.covered_to(log.leader_epoch_cache, at)
        number = segments.number_of(at)
        following = None if number < 0 or segments[number].size else segments.base_after(number)
        if following is None:
            return at
        at = following  # nothing is there to be copied


def next_to_copy(log: UnifiedLog, now_ms: int) -> Copyable | None:
    """The oldest closed segment that is not in the remote store yet; None where there is none, where it is
    not to be copied yet, or where it is not known what is there.
    """
    config = log.config
    tiered_to = log.tiered_to
    if tiered_to is None or not config.remote_storage_enable or config.remote_log_copy_disable:
        return None
    bound = log.last_stable_offset
    if config.compacts:
        bound = min(bound, log.cleaner_checkpoint or 0)
    segments = log.segments
    for number in range(max(segments.number_of(tiered_to), 0), len(segments) - 1):
        following = segments.base_after(number)
        if following is None or following > bound:
            return None
        if following > max(tiered_to, log.log_start_offset) and segments[number].size:
            return Copyable(log, segments[number], following) if _lags_behind(log, number, now_ms) else None
    return None


def _lags_behind(log: UnifiedLog, number: int, now_ms: int) -> bool:
    """Whether a segment is old enough, or enough came after it, for it to be copied."""
    lag_ms, lag_bytes = log.config.remote_copy_lags
    if not lag_ms or not lag_bytes:
        return True
    if lag_ms > 0:
        age_ms = now_ms - log.segments[number].largest_timestamp()
        if age_ms >= lag_ms or age_ms < 0:  # what is of the future would wait for nobody knows how long
            return True
    newer_bytes = 0
    for newer in range(len(log.segments) - 1, number, -1):
        newer_bytes += log.segments[newer].size
        if newer_bytes >= lag_bytes > 0:
            return True
    return False


def describe(
    found: Copyable, partition: TopicIdPartition, segment_id: bytes, publisher: Publisher
) -> RemoteLogSegmentMetadata:
    """What is told of a copy before it is made."""
    segment, end = found.segment, found.following - 1
    return RemoteLogSegmentMetadata(
        partition,
        segment_id,
        segment.base_offset,
        end,
        segment.largest_timestamp(),
        segment.size,
        _epochs_within(found.log.leader_epoch_cache, segment.base_offset, end),
        RemoteLogSegmentState.COPY_STARTED,
        publisher.broker_id,
        publisher.now_ms(),
        custom_metadata=joined(found.log.cleaner_checkpoint if found.log.config.compacts else None, None),
        has_aborted=segment.indexes.has_aborted,
    )


def cleaner_checkpoint(segment: RemoteLogSegmentMetadata) -> int:
    """What its mark says; without one, compaction has not been at it."""
    clean_to = segment.clean_to
    return segment.start_offset if clean_to is None else clean_to


def _epochs_within(epochs: LeaderEpochFileCache, first: int, last: int) -> tuple[tuple[int, int], ...]:
    entries = [(epoch, max(start, first)) for epoch, start in epochs.entries() if start <= last]
    found: dict[int, int] = {}
    for epoch, start in entries:
        if start == first:
            found.clear()  # of those that began before, the last one wrote here
        found[epoch] = start
    if not found:
        raise InvalidBytesError(
            f"it is not known in which leader epoch the offsets {first} to {last} were written"
        )
    result = list(found.items())
    return ((result[0][0], first), *result[1:])  # deleted records may have taken the epoch's beginning


def copy(
    found: Copyable,
    new: RemoteLogSegmentMetadata,
    *,
    remote: RemoteLogMetadataCache,
    store: RemoteStorageManager,
    publisher: Publisher,
    is_leading: Callable[[], bool],
    note_bytes_max: int = NOTE_BYTES_MAX,
) -> Steps:
    """Copy a segment. RemoteStorageError, OSError or InvalidBytesError: it failed, and what was left of it
    was removed as far as that could be done.
    """
    log = found.log
    generation = log.generation
    finishing = Finishing(store, new, note_bytes_max)
    if not (yield Publish(new)):
        return False
    try:
        for work in chain[Work](_objects(found, new, store, publisher.now_ms()), (finishing,)):
            yield work
            if not is_leading() or log.failure is not None:
                break
    except (RemoteStorageError, OSError, InvalidBytesError):
        if is_leading():
            yield from remove(finishing.finished, store, publisher)
        else:
            yield partial(delete_objects, store, finishing.finished)
        raise
    new = finishing.finished
    if not is_leading() or log.failure is not None:
        # Only this node could finish the copy, and it will not. Who leads now sees to the records.
        yield partial(delete_objects, store, new)
        return False
    if log.generation != generation or (log.config.compacts and not are_in_place(log, [found.segment])):
        # Truncated, or compacted meanwhile: the file of this name may have been another one.
        return (yield from remove(new, store, publisher)) and False
    if not (yield publisher.finish(new)):
        return False
    finished = remote.get(new.segment_id)
    if finished is None or finished.state is not RemoteLogSegmentState.COPY_FINISHED:
        yield partial(delete_objects, store, new)  # another leader has given it up
        return False
    return True


def _objects(
    found: Copyable, new: RemoteLogSegmentMetadata, store: RemoteStorageManager, now_ms: int
) -> Iterator[Work]:
    """One piece of work for each object, the long one first."""
    log, segment = found.log, found.segment
    yield partial(_put_file, log, segment.path, segment.size, new.object_name(LOG), store)
    epochs = LeaderEpochFileCache(log.leader_epoch_cache.entries())
    epochs.truncate_from_end(found.following)
    small = {
        TXN_INDEX: b"".join(txn.encode() for txn in segment.indexes.aborted()),
        INDEX: bytes(segment.offset_index().data),
        TIME_INDEX: bytes(segment.time_index().data),
        SNAPSHOT: _producers_at(log, found.following, now_ms),
        EPOCHS: encode_epochs(epochs.entries()),
    }
    if not small[TXN_INDEX]:
        del small[TXN_INDEX]
    moved = sum(map(len, small.values()))
    for put in puts(store, {new.object_name(suffix): data for suffix, data in small.items()}):
        yield partial(_put, put, moved)
        moved = 0


def _put_file(log: UnifiedLog, path: str, size: int, name: str, store: RemoteStorageManager) -> int:
    file = log.storage.disk.open(path, writable=False)
    try:
        store.put(name, file, size)
    finally:
        file.close()
    return size


def _put(put: Callable[[], None], moved: int) -> int:
    put()
    return moved


def _producers_at(log: UnifiedLog, offset: int, now_ms: int) -> bytes:
    """The producers as everything below `offset` left them: there is a snapshot where a segment begins, and
    where it was lost the batches tell.
    """
    if offset in log.snapshots.offsets:
        try:
            return log.storage.disk.read_file(log.snapshots.path(offset))
        except FileNotFoundError:
            pass
    earlier = ProducerSnapshots(log.storage, log.folder, log.snapshots.below(offset))
    producers = ProducerStateManager()
    restore_producers(producers, earlier, log.segments, log.local_start_offset, offset, now_ms)
    return encode_snapshot(producers.snapshot())
