"""Compaction of what is in the remote store, which Apache Kafka does not have.

A compacted topic's segments are copied once the local cleaner has been through them. What is written later
supersedes records in older copies, and those may have left the disk. So the leader goes over them again, as
the local cleaner does over its segments: a table of keys over the part that is new since the last time, then
all segments written anew, in groups, without what is superseded. Segments are fetched into a scratch folder
one after the other, and what becomes of a group is put under a new id. One record, its COPY_FINISHED, takes
the group's place (see `tiered.metadata_cache`): a reader sees the old segments or the new one.

Each copy says how far compaction had been when it was made (`RemoteLogSegmentMetadata.clean_to`), so the
least of these marks is where the new part begins, whoever leads. Groups are done oldest first: a delete
marker goes, after `delete.retention.ms`, only when what it deletes has gone in all groups before it. For the
same reason the local cleaner of a tiered topic keeps its delete markers: what they delete may be here.

The local cleaner puts segments together, so a copy may begin before the one before it ends. Of those two the
later one counts: it was cleaned later, and its batches are the other's or what is left of them.
"""

import random
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, zip_longest
from typing import Final

from headrace.base.errors import InvalidBytesError
from headrace.base.ids import new_uuid
from headrace.log.compaction.cleaned_segment import ActiveProducers, CleanedSegment
from headrace.log.compaction.cleaned_transaction_metadata import CleanedTransactionMetadata
from headrace.log.compaction.cleaner import CleanerLimits, OffsetMapBuilder, index_bytes
from headrace.log.compaction.drivers.log_cleaner import TABLE_BYTES_MAX, shares
from headrace.log.compaction.read_buffer import ReadBuffer
from headrace.log.disk import Disk, File
from headrace.log.file_names import CLEANED, LOG, SNAPSHOT, TXN_INDEX
from headrace.log.log_segment import POSITION_MAX, RELATIVE_OFFSET_MAX
from headrace.log.transaction_index import AbortedTxn, read_aborted
from headrace.log.unified_log import UnifiedLog
from headrace.records.batch import read_header
from headrace.records.compaction.offset_map import OffsetMap
from headrace.records.compaction.segment_writer import SegmentWriter
from headrace.records.kernels.batches import walk_batches
from headrace.remote_log.copier import cleaner_checkpoint
from headrace.remote_log.core.partition_state import RemotePartitionState
from headrace.remote_log.expiration import delete_objects, remove
from headrace.remote_log.steps import AwaitQuota, IsWanted, Publish, Publisher, StepRunner, Steps, Work
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.topic import TopicConfig
from headrace.tiered.metadata_cache import RemoteLogMetadataCache, lineage_end
from headrace.tiered.remote_storage import (
    NOTE_BYTES_MAX,
    Finishing,
    RemoteStorageError,
    RemoteStorageManager,
    read_whole,
    store_of,
)
from headrace.tiered.segment_metadata import EPOCHS, RemoteLogSegmentMetadata, RemoteLogSegmentState, joined

PIECE_BYTES: Final = 8 << 20
SCRATCH: Final = "remote-log-compaction"
"""The folder beside the partitions' that holds what is being written anew; nothing in it outlives a round."""


@dataclass(frozen=True, slots=True)
class RemoteCleanable:
    """Segments without a hole between them, each as far as the next one starts; from `first_dirty` on they
    are new since the last time."""

    log: UnifiedLog
    segments: list[RemoteLogSegmentMetadata]
    first_dirty: int
    dirty_bytes: int

    @property
    def is_worth_it(self) -> bool:
        total = sum(segment.size for segment in self.segments)
        return bool(total) and self.dirty_bytes / total > self.log.config.min_cleanable_dirty_ratio


def look_at(log: UnifiedLog, remote: RemoteLogMetadataCache) -> RemoteCleanable | None:
    """What a round would find; None where there is nothing to be done."""
    if not (log.config.compacts and log.config.remote_storage_enable) or log.config.remote_log_copy_disable:
        return None
    segments = chain(
        segment
        for segment in remote.readable(log.leader_epoch_cache)
        if lineage_end(log.leader_epoch_cache, segment) == segment.end_offset + 1
    )
    if len(segments) < 2 or any(b.start_offset > a.end_offset + 1 for a, b in pairwise(segments)):
        return None
    first_dirty = min(cleaner_checkpoint(segment) for segment in segments)
    dirty = sum(segment.size for segment in segments if segment.end_offset >= first_dirty)
    found = RemoteCleanable(log, segments, max(first_dirty, segments[0].start_offset), dirty)
    return found if found.is_worth_it else None


def chain(segments: Iterable[RemoteLogSegmentMetadata]) -> list[RemoteLogSegmentMetadata]:
    """Of segments by start offset, those that reach further than all before them: the others have nothing
    that is not in these. Two leaders may have copied the same, cut differently by their cleaners.
    """
    links: list[RemoteLogSegmentMetadata] = []
    for segment in segments:
        if not links or segment.end_offset > links[-1].end_offset:
            links.append(segment)
    return links


@dataclass(frozen=True, slots=True)
class Tools:
    """What a round works with."""

    store: RemoteStorageManager
    publisher: Publisher
    disk: Disk
    scratch: str
    table: OffsetMap
    limits: CleanerLimits
    new_id: Callable[[], bytes]
    is_leading: Callable[[], bool]
    note_bytes_max: int = NOTE_BYTES_MAX


def compact(found: RemoteCleanable, remote: RemoteLogMetadataCache, tools: Tools) -> Steps:
    """One round. RemoteStorageError, OSError, InvalidBytesError: it failed, and what was finished counts."""
    log = found.log
    yield partial(_empty, tools.disk, tools.scratch)
    aborted = [txn for segment in log.segments for txn in segment.indexes.aborted()]
    for segment in found.segments:
        if segment.has_aborted:
            yield partial(_load_aborted, tools.store, segment, aborted)
    window = ReadBuffer(tools.limits.buffer_bytes)
    mapping = OffsetMapBuilder(tools.table, window, CleanedTransactionMetadata(aborted, found.first_dirty))
    yield from _fill(found, mapping, tools)
    transactions = CleanedTransactionMetadata(aborted)
    known = ActiveProducers(log)
    yield from known.look()
    clean_to = tools.table.latest + 1
    whole = [segment for segment in found.segments if segment.end_offset < clean_to]
    for group in group_remote(whole, log.config):
        if not tools.is_leading() or log.failure is not None:
            return False
        rewriting = _rewriting(log, group, tools, window, transactions, known)
        yield from _rewrite(rewriting, group, tools)
        new = _describe(group, rewriting, clean_to, tools)
        if not (yield from _replace(group, new, rewriting, remote, tools)):
            return False
    yield partial(_empty, tools.disk, tools.scratch)
    return True


class RemoteLogCompactor:
    """Runs rounds of compaction, one after the other.

    They share the local cleaner's memory as one more of its rounds, and the copy quota.
    """

    def __init__(self, runner: StepRunner, config: BrokerConfig, rng: random.Random) -> None:
        self._runner = runner
        self._config = config
        self._rng = rng

    async def run(
        self,
        found: RemoteCleanable,
        remote: RemoteLogMetadataCache,
        state: RemotePartitionState,
        leads: IsWanted,
    ) -> None:
        """One round."""
        made: list[bytes] = []

        def new_id() -> bytes:
            made.append(new_uuid(self._rng))
            state.in_progress.add(made[-1])
            return made[-1]

        try:
            await self._compact(found, remote, new_id=new_id, leads=leads)
        finally:
            state.in_progress.difference_update(made)
            state.end_compaction()

    async def _compact(
        self,
        found: RemoteCleanable,
        remote: RemoteLogMetadataCache,
        *,
        new_id: Callable[[], bytes],
        leads: IsWanted,
    ) -> None:
        parts = shares(self._config, self._config.int("log.cleaner.threads"))
        table = OffsetMap(
            min(self._config.int("log.cleaner.dedupe.buffer.size") // parts, TABLE_BYTES_MAX),
            self._config.float("log.cleaner.io.buffer.load.factor"),
            (self._rng.getrandbits(64), self._rng.getrandbits(64)),
        )
        tools = Tools(
            store=self._runner.store,
            publisher=self._runner.publisher,
            disk=found.log.storage.disk,
            scratch=scratch_of(found.log),
            table=table,
            limits=CleanerLimits(buffer_bytes=self._config.int("log.cleaner.io.buffer.size") // parts),
            new_id=new_id,
            is_leading=leads,
            note_bytes_max=self._config.int("remote.log.metadata.custom.metadata.max.bytes"),
        )
        try:
            await self._runner.run(compact(found, remote, tools), leads)
        finally:
            table.drop()


def scratch_of(log: UnifiedLog) -> str:
    """The folder for what is written anew, beside the partitions' folders."""
    return f"{log.folder.rpartition('/')[0]}/{SCRATCH}"


def group_remote(
    segments: list[RemoteLogSegmentMetadata], config: TopicConfig
) -> list[list[RemoteLogSegmentMetadata]]:
    """Neighbours that fit into one segment, as the local cleaner puts them together."""
    groups: list[list[RemoteLogSegmentMetadata]] = []
    size = 0
    for segment in segments:
        # Neighbours that overlap become one whatever their size: else one would not lie within its successor.
        fits = bool(groups) and (
            segment.start_offset <= groups[-1][-1].end_offset
            or (
                size + segment.size <= min(config.segment_bytes, POSITION_MAX)
                and index_bytes(size + segment.size, config) <= config.segment_index_bytes
                and segment.end_offset - groups[-1][0].start_offset <= RELATIVE_OFFSET_MAX
            )
        )
        if fits:
            groups[-1].append(segment)
            size += segment.size
        else:
            groups.append([segment])
            size = segment.size
    return groups


def _fill(
    found: RemoteCleanable, mapping: OffsetMapBuilder, tools: Tools
) -> Generator[Work | AwaitQuota, int, None]:
    """The table, from the new part; where it is full the round ends there."""
    table, end = tools.table, found.segments[-1].end_offset + 1
    yield partial(_begin, table, found.first_dirty, end)
    for segment in found.segments:
        if segment.end_offset < found.first_dirty or mapping.is_full:
            continue
        file = yield from _fetched(segment, tools)
        mapping.open(file, 0, segment.size)
        while not mapping.is_done:
            yield partial(mapping.step, tools.limits.piece_bytes)
        if not mapping.is_full:
            table.skip_to(segment.end_offset)
        yield partial(_drop, tools.disk, file)


def _rewrite(
    rewriting: CleanedSegment, group: list[RemoteLogSegmentMetadata], tools: Tools
) -> Generator[Work | AwaitQuota, int, None]:
    rewriting.begin()
    for segment, following in zip_longest(group, group[1:]):
        file = yield from _fetched(segment, tools)
        cut = SegmentCut(
            file, segment.size, segment.end_offset + 1 if following is None else following.start_offset
        )
        if cut.offset <= segment.end_offset:
            yield cut.find
        rewriting.open(file, cut.size, is_last=following is None)
        while not rewriting.is_done:
            yield partial(rewriting.step, tools.limits.piece_bytes)
        yield partial(_drop, tools.disk, file)
    rewriting.begin_indexes()
    yield rewriting.finish


def _fetched(segment: RemoteLogSegmentMetadata, tools: Tools) -> Generator[Work | AwaitQuota, int, File]:
    """A segment's log in a file of the scratch folder."""
    yield AwaitQuota(segment.size)
    file = tools.disk.open(f"{tools.scratch}/fetched{LOG}", create=True)
    file.truncate(0)
    for start in range(0, segment.size, PIECE_BYTES):
        yield partial(_fetch, tools.store, segment, file, start, min(start + PIECE_BYTES, segment.size))
    return file


def _fetch(
    store: RemoteStorageManager, segment: RemoteLogSegmentMetadata, file: File, start: int, end: int
) -> int:
    data = store_of(store, segment).read(segment.object_name(LOG), start, end)
    if len(data) != end - start:
        raise RemoteStorageError(f"{segment} ends at byte {start + len(data)}, not at {segment.size}")
    file.write(start, (data,))
    return len(data)


def _rewriting(
    log: UnifiedLog,
    group: list[RemoteLogSegmentMetadata],
    tools: Tools,
    window: ReadBuffer,
    transactions: CleanedTransactionMetadata,
    known: ActiveProducers,
) -> CleanedSegment:
    config, now_ms = log.config, tools.publisher.now_ms()
    producers = known.between(group[0].start_offset, group[-1].end_offset + 1)
    size = sum(segment.size for segment in group)
    writer = SegmentWriter(
        tools.table,
        base_offset=group[0].start_offset,
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        index_interval_bytes=config.index_interval_bytes,
        index_bytes_max=min(index_bytes(size, config), config.segment_index_bytes),
        kept_offsets=producers.last_offsets,
        room_bytes=window.size // 2,
    )
    return CleanedSegment(
        tools.disk,
        f"{tools.scratch}/new",
        writer=writer,
        buffer=window,
        transactions=transactions,
        last_records=producers,
        now_ms=now_ms,
    )


def _describe(
    group: list[RemoteLogSegmentMetadata], rewriting: CleanedSegment, clean_to: int, tools: Tools
) -> RemoteLogSegmentMetadata:
    first, last = group[0], group[-1]
    epochs: dict[int, int] = {}
    for segment in group:
        for epoch, start in segment.epochs:
            epochs.setdefault(epoch, start)
    return RemoteLogSegmentMetadata(
        first.partition,
        tools.new_id(),
        first.start_offset,
        last.end_offset,
        max(segment.max_timestamp for segment in group),
        rewriting.size,
        tuple(epochs.items()),
        RemoteLogSegmentState.COPY_STARTED,
        tools.publisher.broker_id,
        tools.publisher.now_ms(),
        custom_metadata=joined(clean_to, None),
        has_aborted=TXN_INDEX in rewriting.suffixes,
    )


def _replace(
    group: list[RemoteLogSegmentMetadata],
    new: RemoteLogSegmentMetadata,
    rewriting: CleanedSegment,
    remote: RemoteLogMetadataCache,
    tools: Tools,
) -> Steps:
    """Put what was written anew, and have it take the group's place."""
    store, publisher = tools.store, tools.publisher
    finishing = Finishing(store, new, tools.note_bytes_max)
    yield AwaitQuota(new.size)
    if not (yield Publish(new)):
        return False
    try:
        for suffix in rewriting.suffixes:
            yield partial(_put_file, tools, f"{tools.scratch}/new{suffix}{CLEANED}", new.object_name(suffix))
        for suffix in (SNAPSHOT, EPOCHS):
            yield partial(_copy_object, store, group[-1], new, suffix)
        yield finishing
    except (RemoteStorageError, OSError):
        if tools.is_leading():
            yield from remove(finishing.finished, store, publisher)
        raise
    new = finishing.finished
    are_there = all(remote.get(each.segment_id) is each for each in group)
    if not tools.is_leading() or not are_there:
        # Retention may have been quicker. Nobody else can finish it.
        yield partial(delete_objects, store, new)
        return False
    if not (yield publisher.finish(new)):
        return False
    finished = remote.get(new.segment_id)
    return finished is not None and finished.state is RemoteLogSegmentState.COPY_FINISHED


# -- in a thread ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class SegmentCut:
    """How much of a segment's file lies before `offset`: all of it, unless it is looked for."""

    file: File
    size: int
    offset: int

    def find(self) -> int:
        """Batches may be small and many: they are walked over by a kernel, which holds up nobody."""
        position, count = 0, PIECE_BYTES
        while position < self.size:
            data = self.file.read(position, min(count, self.size - position))
            walk = walk_batches(data)
            number = bisect_right(walk.ends, self.offset)
            if number < len(walk.starts) and read_header(data, walk.starts[number]).base_offset < self.offset:
                number += 1  # it begins before the offset, and ends behind it
            if number < len(walk.starts):
                self.size = position + walk.starts[number]
                return 0
            if not walk.end and count >= self.size - position:
                raise InvalidBytesError(f"{self.file.path}: the batch at byte {position} is cut off")
            position += walk.end
            count = PIECE_BYTES if walk.end else 2 * count
        return 0


def _begin(table: OffsetMap, start: int, end: int) -> int:
    table.begin(start, end)
    return 0


def _empty(disk: Disk, folder: str) -> int:
    disk.remove_tree(folder)
    disk.make_folder(folder)
    return 0


def _drop(disk: Disk, file: File) -> int:
    file.close()
    disk.remove(file.path)
    return 0


def _load_aborted(
    store: RemoteStorageManager, segment: RemoteLogSegmentMetadata, aborted: list[AbortedTxn]
) -> int:
    known = set(aborted)
    data = read_whole(store_of(store, segment), segment.object_name(TXN_INDEX))
    aborted.extend(txn for txn in read_aborted(data) if txn not in known)
    return 0


def _put_file(tools: Tools, path: str, name: str) -> int:
    file = tools.disk.open(path, writable=False)
    try:
        size = file.size()
        tools.store.put(name, file, size)
    finally:
        file.close()
    return size


def _copy_object(
    store: RemoteStorageManager, old: RemoteLogSegmentMetadata, new: RemoteLogSegmentMetadata, suffix: str
) -> int:
    data = read_whole(store_of(store, old), old.object_name(suffix))
    store.put_bytes(new.object_name(suffix), data)
    return len(data)
