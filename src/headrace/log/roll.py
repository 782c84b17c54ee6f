"""Closing the active segment and starting the next one.

What can fail comes first and changes nothing in memory: the old segment's indexes and the producer snapshot
are written, the new files are made. A full disk refuses the roll and leaves the log as it was.
"""

from typing import TYPE_CHECKING

from headrace.log.faults import undo_write
from headrace.log.file_names import SEGMENT_SUFFIXES, offset_name
from headrace.log.segment import Segment
from headrace.log.segment_files import create_segment

if TYPE_CHECKING:
    from headrace.log.partition_log import PartitionLog


def roll_to(log: "PartitionLog", base_offset: int, now_ms: int) -> Segment:
    """Start a segment at `base_offset`: the log's end or, for a follower whose leader skipped offsets, behind
    it. It is named by where the old one's batches end, so that recovery sees when those were lost."""
    old = log.segments.active
    assert base_offset >= log.log_end_offset
    if base_offset == log.log_end_offset:
        base_offset = old.end_offset
    if old.size == 0 and old.base_offset == base_offset:
        return old
    try:
        old.seal()
        log.producers.end_offset = base_offset
        snapshot = log.snapshots.take(log.producers)
        segment = create_segment(log.storage, log.folder, base_offset, config=log.config, now_ms=now_ms)
    except OSError as error:
        stem = f"{log.folder}/{offset_name(base_offset)}"
        raise undo_write(log, error, created=tuple(stem + suffix for suffix in SEGMENT_SUFFIXES)) from error
    if snapshot is not None:
        log.owed.note_files(snapshot)
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
    return segment


def _note_unsynced(log: "PartitionLog", segment: Segment) -> None:
    """A closed segment's indexes must be durable before the recovery point passes it.

    So must the cut of its reserved room, which the next flush would miss where the data was flushed before.
    """
    log.owed.note_files(segment.path, *segment.indexes.paths())
    log.owed.note_folders(log.folder)
