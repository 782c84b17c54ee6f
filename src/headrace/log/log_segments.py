"""The segments of one log: their order, and how they are created, rolled, deleted and replaced.

The last segment is the active one. Whatever can fail comes first and changes nothing in memory. Files of
segments that leave the log are renamed at once, so that a crash finishes the work, and removed later.
"""

import logging
from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.log.faults import undo_write
from headrace.log.file_names import (
    CLEANED,
    DELETED,
    INDEX,
    SEGMENT_SUFFIXES,
    SWAP,
    TIME_INDEX,
    TXN_INDEX,
    offset_name,
)
from headrace.log.flush import forget_aborted_seals
from headrace.log.log_segment import LogSegment
from headrace.log.storage import Storage
from headrace.settings.topic import TopicConfig

if TYPE_CHECKING:
    from headrace.log.unified_log import UnifiedLog

logger = logging.getLogger(__name__)


class LogSegments:
    """Never empty once a log is open."""

    __slots__ = ("_bases", "_segments", "active", "inactive_bytes")

    active: LogSegment

    def __init__(self, segments: list[LogSegment]) -> None:
        self._bases: list[int] = []
        self._segments: list[LogSegment] = []
        self.inactive_bytes = 0
        for segment in segments:
            self.add(segment)

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self._segments)

    @property
    def first(self) -> LogSegment:
        return self._segments[0]

    @property
    def size_bytes(self) -> int:
        return self.inactive_bytes + self.active.size

    @property
    def bases(self) -> list[int]:
        return list(self._bases)

    def add(self, segment: LogSegment) -> None:
        """Put a segment behind the last one; it becomes the active one."""
        if self._segments:
            assert segment.base_offset > self.active.base_offset
            self.inactive_bytes += self.active.size
        self._bases.append(segment.base_offset)
        self._segments.append(segment)
        self.active = segment

    def number_of(self, offset: int) -> int:
        """The number of the segment that holds `offset`; -1 where it lies before all."""
        return bisect_right(self._bases, offset) - 1

    def from_number(self, number: int) -> list[LogSegment]:
        return self._segments[max(number, 0) :]

    def base_after(self, number: int) -> int | None:
        """The base offset of the segment behind this one; None for the active one."""
        return self._bases[number + 1] if number + 1 < len(self._bases) else None

    def __getitem__(self, number: int) -> LogSegment:
        return self._segments[number]

    def replace(self, old: list[LogSegment], new: LogSegment) -> None:
        """Put one segment in the place of neighbours; the active one is not among them."""
        number = self._segments.index(old[0])
        assert self._segments[number : number + len(old)] == old
        assert number + len(old) < len(self._segments)
        self._segments[number : number + len(old)] = [new]
        self._bases[number : number + len(old)] = [new.base_offset]
        self.inactive_bytes += new.size - sum(segment.size for segment in old)

    def drop_first(self, count: int) -> list[LogSegment]:
        """Take out the oldest segments; the active one stays."""
        assert count < len(self._segments)
        dropped = self._segments[:count]
        self.inactive_bytes -= sum(segment.size for segment in dropped)
        del self._segments[:count], self._bases[:count]
        return dropped

    def drop_from(self, number: int) -> list[LogSegment]:
        """Take out the segments from this number on. Where none is left, `add` one before anything else."""
        dropped = self._segments[number:]
        del self._segments[number:], self._bases[number:]
        if self._segments:
            self.active = self._segments[-1]
        self.inactive_bytes = sum(segment.size for segment in self._segments[:-1])
        return dropped


# -- a segment's files ---------------------------------------------------------------------------------------


def create_segment(
    storage: Storage, folder: str, base_offset: int, *, config: TopicConfig, now_ms: int
) -> LogSegment:
    """A new, empty, active segment; files of that name that lie about are cut."""
    segment = LogSegment(
        storage, folder, base_offset, size=0, config=config, created_ms=now_ms, has_index_files=False
    )
    file = storage.disk.open(segment.path, create=True)
    file.truncate(0)
    for suffix in (INDEX, TIME_INDEX, TXN_INDEX):
        storage.disk.remove(segment.stem + suffix)
    if config.preallocate:
        file.preallocate(config.segment_bytes)
    segment.reset()
    return segment


def mark_deleted(storage: Storage, segment: LogSegment) -> list[str]:
    """Rename the files to `.deleted`, so that a crash finishes the work, and return their new paths."""
    renamed = []
    for suffix in SEGMENT_SUFFIXES:
        path = segment.stem + suffix
        if suffix != TXN_INDEX or segment.indexes.has_aborted:
            try:
                storage.disk.rename(path, path + DELETED)
            except FileNotFoundError:
                continue
            renamed.append(path + DELETED)
    segment.release()
    segment.indexes.release()
    return renamed


# -- rolling -------------------------------------------------------------------------------------------------


def roll_to(log: "UnifiedLog", base_offset: int, now_ms: int) -> LogSegment:
    """Start a segment at `base_offset`: the log's end or, for a follower whose leader skipped offsets, behind
    it. It is named by where the old one's batches end, so that recovery sees when those were lost.

    The old segment's indexes and the producer snapshot are written and the new files made before anything
    changes in memory: a full disk refuses the roll and leaves the log as it was.
    """
    old = log.segments.active
    assert base_offset >= log.log_end_offset
    if base_offset == log.log_end_offset:
        base_offset = old.end_offset
    if old.size == 0 and old.base_offset == base_offset:
        return old
    try:
        old.seal()
        log.producer_state_manager.end_offset = base_offset
        snapshot = log.snapshots.take(log.producer_state_manager)
        segment = create_segment(log.storage, log.folder, base_offset, config=log.config, now_ms=now_ms)
    except OSError as error:
        stem = f"{log.folder}/{offset_name(base_offset)}"
        raise undo_write(log, error, created=tuple(stem + suffix for suffix in SEGMENT_SUFFIXES)) from error
    if snapshot is not None:
        log.unsynced.note_files(snapshot)
    if old.size:
        old.retire()
        _note_unsynced(log, old)
    else:  # a segment that got no batch before its follower was sent further on
        log.segments.drop_from(len(log.segments) - 1)
        for suffix in SEGMENT_SUFFIXES:
            log.storage.disk.remove(old.stem + suffix)
    log.segments.add(segment)
    segment.start_tail(base_offset)
    log.want_flush()
    logger.debug(
        "%s: a new segment begins at offset %d; the one from offset %d on has %d bytes",
        *(log.folder, base_offset, old.base_offset, old.size),
    )
    return segment


def _note_unsynced(log: "UnifiedLog", segment: LogSegment) -> None:
    """A closed segment's indexes must be durable before the recovery point passes it.

    So must the cut of its reserved room, which the next flush would miss where the data was flushed before.
    """
    log.unsynced.note_files(segment.path, *segment.indexes.paths())
    log.unsynced.note_folders(log.folder)


# -- replacing, for compaction -------------------------------------------------------------------------------


def replace_segments(
    log: "UnifiedLog", old: list[LogSegment], new: LogSegment, suffixes: tuple[str, ...], now_ms: int
) -> None:
    """Replace `old`, neighbours in the log, by `new`, whose files are `.cleaned`. OSError where the disk
    fails half-way: then the folder must go offline, and the next start finishes it.

    Everything happens in one turn of the loop, by renames alone: the new files, whole and synced, become
    `.swap`, the old ones `.deleted`, the new ones lose their suffix. A file system keeps the order of renames
    in a folder, so a crash leaves either a `.cleaned` file, and the old segments, or every new file as
    `.swap` or under its real name: `log_loader` goes on from there. The log comes first when suffixes are
    lost: indexes without a `.swap` log beside them are taken as they are. A reply that is being sent keeps
    the old file open.
    """
    forget_aborted_seals(log)
    disk = log.storage.disk
    for suffix in suffixes:
        disk.rename(new.stem + suffix + CLEANED, new.stem + suffix + SWAP)
    due_ms = now_ms + log.config.file_delete_delay_ms
    for segment in old:
        for path in mark_deleted(log.storage, segment):
            log.storage.removals.schedule(path, due_ms)
    for suffix in suffixes:
        disk.rename(new.stem + suffix + SWAP, new.stem + suffix)
    log.segments.replace(old, new)
    log.unsynced.note_folders(log.folder)
    for segment in old[1:]:
        log.snapshots.remove(segment.base_offset)


def are_in_place(log: "UnifiedLog", old: list[LogSegment]) -> bool:
    """Whether the log still has these segments, one behind the other."""
    number = log.segments.number_of(old[0].base_offset)
    found = log.segments.from_number(number)[: len(old)] if number >= 0 else []
    return len(found) == len(old) and all(a is b for a, b in zip(found, old, strict=True))
