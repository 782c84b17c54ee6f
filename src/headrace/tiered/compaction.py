"""Compaction of what is in the remote store, which Apache Kafka does not have.

A compacted topic's segments are copied once the local cleaner has been through them. What is written later
supersedes records in older copies, and those may have left the disk. So the leader goes over them again, as
the local cleaner does over its segments: a table of keys over the part that is new since the last time, then
all segments written anew, in groups, without what is superseded. Segments are fetched into a scratch folder
one after the other, and what becomes of a group is put under a new id. One record, its COPY_FINISHED, takes
the group's place (see `remote_log`): a reader sees the old segments or the new one.

Each copy says how far compaction had been when it was made (`copying.clean_mark`), so the least of these
marks is where the new part begins, whoever leads. Groups are done oldest first: a delete marker goes, after
`delete.retention.ms`, only when what it deletes has gone in all groups before it. For the same reason the
local cleaner of a tiered topic keeps its delete markers: what they delete may be here.

The local cleaner puts segments together, so a copy may begin before the one before it ends. Of those two the
later one counts: it was cleaned later, and its batches are the other's or what is left of them.
"""

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, zip_longest
from typing import Final

from headrace.base.errors import InvalidBytesError
from headrace.log.cleaner import Limits
from headrace.log.cleaner_groups import index_bytes
from headrace.log.cleaner_mapping import Mapping
from headrace.log.cleaner_producers import KnownProducers
from headrace.log.cleaner_rewriting import Rewriting
from headrace.log.cleaner_transactions import CleanedTransactions
from headrace.log.cleaner_window import Window
from headrace.log.disk import Disk, File
from headrace.log.file_names import CLEANED, LOG, SNAPSHOT, TXN_INDEX
from headrace.log.partition_log import PartitionLog
from headrace.log.segment import POSITION_MAX, RELATIVE_OFFSET_MAX
from headrace.log.txn_index import AbortedTxn, read_aborted
from headrace.records.batch import read_header
from headrace.records.batch_walk import walk_batches
from headrace.records.cleaning import KeyTable
from headrace.records.cleaning_writer import SegmentWriter
from headrace.settings.topic import TopicConfig
from headrace.tiered.copying import cleaned_to
from headrace.tiered.custom_metadata import NOTE_BYTES_MAX, Finishing, store_of
from headrace.tiered.remote_log import RemoteLog, lineage_end
from headrace.tiered.remote_segment import EPOCHS, RemoteSegment, SegmentState
from headrace.tiered.removal import delete_objects, remove
from headrace.tiered.segment_mark import joined
from headrace.tiered.steps import Room, Steps, Tell, Teller, Work
from headrace.tiered.store import RemoteStore, RemoteStoreError, read_whole

PIECE_BYTES: Final = 8 << 20
SCRATCH: Final = "remote-log-compaction"
"""The folder beside the partitions' that holds what is being written anew; nothing in it outlives a round."""


@dataclass(frozen=True, slots=True)
class RemoteCleanable:
    """Segments without a hole between them, each as far as the next one starts; from `first_dirty` on they
    are new since the last time."""

    log: PartitionLog
    segments: list[RemoteSegment]
    first_dirty: int
    dirty_bytes: int

    @property
    def is_worth_it(self) -> bool:
        total = sum(segment.size for segment in self.segments)
        return bool(total) and self.dirty_bytes / total > self.log.config.min_cleanable_dirty_ratio


def look_at(log: PartitionLog, remote: RemoteLog) -> RemoteCleanable | None:
    """What a round would find; None where there is nothing to be done."""
    if not (log.config.compacts and log.config.remote_storage_enable) or log.config.remote_log_copy_disable:
        return None
    segments = chain(
        segment
        for segment in remote.readable(log.epochs)
        if lineage_end(log.epochs, segment) == segment.end_offset + 1
    )
    if len(segments) < 2 or any(b.start_offset > a.end_offset + 1 for a, b in pairwise(segments)):
        return None
    first_dirty = min(cleaned_to(segment) for segment in segments)
    dirty = sum(segment.size for segment in segments if segment.end_offset >= first_dirty)
    found = RemoteCleanable(log, segments, max(first_dirty, segments[0].start_offset), dirty)
    return found if found.is_worth_it else None


def chain(segments: Iterable[RemoteSegment]) -> list[RemoteSegment]:
    """Of segments by start offset, those that reach further than all before them: the others have nothing
    that is not in these. Two leaders may have copied the same, cut differently by their cleaners.
    """
    links: list[RemoteSegment] = []
    for segment in segments:
        if not links or segment.end_offset > links[-1].end_offset:
            links.append(segment)
    return links


@dataclass(frozen=True, slots=True)
class Tools:
    """What a round works with."""

    store: RemoteStore
    teller: Teller
    disk: Disk
    scratch: str
    table: KeyTable
    limits: Limits
    new_id: Callable[[], bytes]
    is_leading: Callable[[], bool]
    note_bytes_max: int = NOTE_BYTES_MAX


def compact(found: RemoteCleanable, remote: RemoteLog, tools: Tools) -> Steps:
    """One round. RemoteStoreError, OSError, InvalidBytesError: it failed, and what was finished counts."""
    log = found.log
    yield partial(_empty, tools.disk, tools.scratch)
    aborted = [txn for segment in log.segments for txn in segment.indexes.aborted()]
    for segment in found.segments:
        if segment.has_aborted:
            yield partial(_load_aborted, tools.store, segment, aborted)
    window = Window(tools.limits.window_bytes)
    mapping = Mapping(tools.table, window, CleanedTransactions(aborted, found.first_dirty))
    yield from _fill(found, mapping, tools)
    transactions = CleanedTransactions(aborted)
    known = KnownProducers(log)
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


def group_remote(segments: list[RemoteSegment], config: TopicConfig) -> list[list[RemoteSegment]]:
    """Neighbours that fit into one segment, as the local cleaner puts them together."""
    groups: list[list[RemoteSegment]] = []
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


def _fill(found: RemoteCleanable, mapping: Mapping, tools: Tools) -> Generator[Work | Room, int, None]:
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
    rewriting: Rewriting, group: list[RemoteSegment], tools: Tools
) -> Generator[Work | Room, int, None]:
    rewriting.begin()
    for segment, following in zip_longest(group, group[1:]):
        file = yield from _fetched(segment, tools)
        cut = Cut(file, segment.size, segment.end_offset + 1 if following is None else following.start_offset)
        if cut.offset <= segment.end_offset:
            yield cut.find
        rewriting.open(file, cut.size, is_last=following is None)
        while not rewriting.is_done:
            yield partial(rewriting.step, tools.limits.piece_bytes)
        yield partial(_drop, tools.disk, file)
    rewriting.begin_indexes()
    yield rewriting.finish


def _fetched(segment: RemoteSegment, tools: Tools) -> Generator[Work | Room, int, File]:
    """A segment's log in a file of the scratch folder."""
    yield Room(segment.size)
    file = tools.disk.open(f"{tools.scratch}/fetched{LOG}", create=True)
    file.truncate(0)
    for start in range(0, segment.size, PIECE_BYTES):
        yield partial(_fetch, tools.store, segment, file, start, min(start + PIECE_BYTES, segment.size))
    return file


def _fetch(store: RemoteStore, segment: RemoteSegment, file: File, start: int, end: int) -> int:
    data = store_of(store, segment).read(segment.object_name(LOG), start, end)
    if len(data) != end - start:
        raise RemoteStoreError(f"{segment} ends at byte {start + len(data)}, not at {segment.size}")
    file.write(start, (data,))
    return len(data)


def _rewriting(
    log: PartitionLog,
    group: list[RemoteSegment],
    tools: Tools,
    window: Window,
    transactions: CleanedTransactions,
    known: KnownProducers,
) -> Rewriting:
    config, now_ms = log.config, tools.teller.now_ms()
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
    return Rewriting(
        tools.disk,
        f"{tools.scratch}/new",
        writer=writer,
        window=window,
        transactions=transactions,
        producers=producers,
        now_ms=now_ms,
    )


def _describe(group: list[RemoteSegment], rewriting: Rewriting, clean_to: int, tools: Tools) -> RemoteSegment:
    first, last = group[0], group[-1]
    epochs: dict[int, int] = {}
    for segment in group:
        for epoch, start in segment.epochs:
            epochs.setdefault(epoch, start)
    return RemoteSegment(
        first.partition,
        tools.new_id(),
        first.start_offset,
        last.end_offset,
        max(segment.max_timestamp for segment in group),
        rewriting.size,
        tuple(epochs.items()),
        SegmentState.COPY_STARTED,
        tools.teller.broker_id,
        tools.teller.now_ms(),
        custom_metadata=joined(clean_to, None),
        has_aborted=TXN_INDEX in rewriting.suffixes,
    )


def _replace(
    group: list[RemoteSegment], new: RemoteSegment, rewriting: Rewriting, remote: RemoteLog, tools: Tools
) -> Steps:
    """Put what was written anew, and have it take the group's place."""
    store, teller = tools.store, tools.teller
    finishing = Finishing(store, new, tools.note_bytes_max)
    yield Room(new.size)
    if not (yield Tell(new)):
        return False
    try:
        for suffix in rewriting.suffixes:
            yield partial(_put_file, tools, f"{tools.scratch}/new{suffix}{CLEANED}", new.object_name(suffix))
        for suffix in (SNAPSHOT, EPOCHS):
            yield partial(_copy_object, store, group[-1], new, suffix)
        yield finishing
    except (RemoteStoreError, OSError):
        if tools.is_leading():
            yield from remove(finishing.finished, store, teller)
        raise
    new = finishing.finished
    are_there = all(remote.get(each.segment_id) is each for each in group)
    if not tools.is_leading() or not are_there:
        # Retention may have been quicker. Nobody else can finish it.
        yield partial(delete_objects, store, new)
        return False
    if not (yield teller.finish(new)):
        return False
    finished = remote.get(new.segment_id)
    return finished is not None and finished.state is SegmentState.COPY_FINISHED


# -- in a thread ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Cut:
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


def _begin(table: KeyTable, start: int, end: int) -> int:
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


def _load_aborted(store: RemoteStore, segment: RemoteSegment, aborted: list[AbortedTxn]) -> int:
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


def _copy_object(store: RemoteStore, old: RemoteSegment, new: RemoteSegment, suffix: str) -> int:
    data = read_whole(store_of(store, old), old.object_name(suffix))
    store.put_bytes(new.object_name(suffix), data)
    return len(data)
