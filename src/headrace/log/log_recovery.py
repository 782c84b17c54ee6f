"""Recovery of a log that was not closed: batches behind the recovery point are checked, and bad ones cut off.

Every batch is checked for its size, format, CRC and rising offsets; at the first bad one the log is cut and
what follows is dropped. On the way the indexes, the transaction index, the leader epochs and the producer
state are made from the batches, so none of them needs to have survived.

Apache Kafka's compaction leaves gaps between segments where it drops the last batches of one. Ours leaves
none, so that behind the recovery point a gap tells of an end that was lost. A log that Apache Kafka was
killed over may have gaps there too: its cleaner's checkpoint comes when a round is over, and its recovery
point is written once a minute. Such a log can be told: while Kafka has it open, the time index of its last
segment has all the room that it may ever need, which Kafka cuts when it rolls or closes the log and headrace
never reserves. Once headrace has rolled the log the last segment is another. A gap that is believed is closed
with a batch that holds its place, durably: from then on the log is as one of ours, and the next recovery
needs no proof.
"""

import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from headrace.base.errors import InvalidBytesError
from headrace.log.batch_scan import scan_batches, scan_headers
from headrace.log.disk import File
from headrace.log.file_names import (
    TIME_INDEX,
)
from headrace.log.flush import forget_aborted_seals
from headrace.log.log_segment import POSITION_MAX, RELATIVE_OFFSET_MAX, LogSegment
from headrace.log.log_segments import LogSegments
from headrace.log.missing_records import FETCHED_AGAIN
from headrace.log.producer_state_rebuild import rebuild_producers
from headrace.log.retention import discard
from headrace.log.time_index import ENTRY_BYTES
from headrace.log.unified_log import UnifiedLog
from headrace.records.batch import (
    HEADER_BYTES,
    MAGIC,
    NO_TIMESTAMP,
    BatchHeader,
    build_batch,
    crc_matches,
    read_header,
)
from headrace.settings.definition import LONG_MAX

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RecoveryProgress:
    """A segment of a log was recovered."""

    folder: str
    segments_done: int
    segments_total: int
    bytes_done: int
    bytes_cut: int
    bytes_lost: int
    """Of what was cut: all but the beginning of a batch whose write did not come to its end."""


OnProgress = Callable[[RecoveryProgress], None]


class Cut(NamedTuple):
    """Where a segment was cut, and why. `is_unfinished`: it was the beginning of one batch and no more."""

    position: int
    size: int
    records: int
    why: str
    is_unfinished: bool
    is_reserve: bool
    """Room that was reserved ahead (`preallocate`), and is no data."""


def recover_segments(
    log: UnifiedLog, number: int, now_ms: int, on_progress: OnProgress | None, *, keeps_gaps: bool
) -> None:
    """Check all segments from this number on. `keeps_gaps`: those between segments are Apache Kafka's."""
    forget_aborted_seals(log)
    segments = log.segments.from_number(number)
    first = segments[0]
    rebuild_producers(
        log.producer_state_manager,
        log.snapshots,
        log.segments,
        log.log_start_offset,
        first.base_offset,
        now_ms,
    )
    log.leader_epoch_cache.truncate_from_end(first.base_offset)
    end_offset, bytes_done = first.base_offset, 0
    for done, segment in enumerate(segments, 1):
        is_behind_gap = _lacks_end(log, end_offset, segment)
        if is_behind_gap and keeps_gaps:
            _close_gap(log, segments[done - 2], end_offset, segment.base_offset)
        elif segment.base_offset < end_offset or is_behind_gap:
            why = f"{segment.path} begins at {segment.base_offset}, what is before it ends at {end_offset}"
            dropped = _drop_from(log, number + done - 1, now_ms, why)
            _tell(log, done, len(segments), bytes_done, dropped, dropped, on_progress)
            break
        if done > 1:
            log.producer_state_manager.end_offset = segment.base_offset
            log.snapshots.take(log.producer_state_manager)
        end_offset, found = _recover_segment(log, segment)
        bytes_done += segment.size
        cut, dropped = 0 if found is None else found.size, 0
        if found is not None and not found.is_reserve:
            _warn_of_cut(log, segment, found, end_offset)
        is_gap = not segment.size and not keeps_gaps
        if cut or (is_gap and done < len(segments)):
            why = f"{segment.path}, which comes before, was cut at offset {end_offset}"
            dropped = _drop_from(log, number + done, now_ms, why)
        lost = dropped if found is not None and found.is_unfinished else cut + dropped
        _tell(log, done, len(segments), bytes_done, cut + dropped, lost, on_progress)
        if cut or is_gap:
            break
    _close_recovered(log, number)
    log.segments = LogSegments(list(log.segments))  # sizes have changed
    log.producer_state_manager.end_offset = end_offset


def _drop_from(log: UnifiedLog, number: int, now_ms: int, why: str) -> int:
    """Drop the segments from this number on; how many bytes they had."""
    dropped = log.segments.drop_from(number)
    size = sum(segment.size for segment in dropped)
    if size:
        logger.warning(
            "%s: dropped %d segments from offset %d on, %d bytes with about %d records: %s. %s",
            log.topic_partition,
            len(dropped),
            dropped[0].base_offset,
            size,
            sum(_records_in(segment.file, 0, segment.size) for segment in dropped),
            why,
            FETCHED_AGAIN,
        )
    discard(log, dropped, now_ms)
    return size


def _warn_of_cut(log: UnifiedLog, segment: LogSegment, cut: Cut, end_offset: int) -> None:
    if cut.is_unfinished:
        logger.warning(
            "%s: cut %d bytes from byte %d of %s: %s. The write of one batch, at offset %d, did not come to "
            "its end, and nobody was told of it.",
            log.topic_partition,
            cut.size,
            cut.position,
            segment.path,
            cut.why,
            end_offset,
        )
        return
    logger.warning(
        "%s: cut %d bytes with about %d records, from offset %d on, at byte %d of %s: %s. %s",
        log.topic_partition,
        cut.size,
        cut.records,
        end_offset,
        cut.position,
        segment.path,
        cut.why,
        FETCHED_AGAIN,
    )


def _records_in(file: File, position: int, end: int) -> int:
    """How many records batches say they have that can be walked to: a damaged one may be a wrong guess."""
    count = 0
    with contextlib.suppress(InvalidBytesError):
        for _, header in scan_headers(file, position, end):
            count += max(header.record_count, 0)
    return count


def _tell(
    log: UnifiedLog,
    done: int,
    total: int,
    bytes_done: int,
    cut: int,
    lost: int,
    on_progress: OnProgress | None,
) -> None:
    if on_progress is not None:
        on_progress(RecoveryProgress(log.folder, done, total, bytes_done, cut, lost))


def _lacks_end(log: UnifiedLog, end_offset: int, following: LogSegment) -> bool:
    """Whether the segment that ends at `end_offset` lost its end, which a log must not have a hole for.

    Behind the recovery point segments follow each other without a gap. Apache Kafka's compaction may make
    one (`was_open_in_kafka`), ours never does.
    """
    return following.base_offset > max(end_offset, log.recovery_point, log.cleaner_checkpoint or 0)


def _recover_segment(log: UnifiedLog, segment: LogSegment) -> tuple[int, Cut | None]:
    """Note every good batch and cut behind the last of them. Returns the offset behind it, and what was cut.

    A process may have ended because a sync failed. What it wrote can still be read, but the system takes
    those pages for clean, and no later sync would bring them to the disk. Where acknowledgements wait for the
    disk, or nothing says that no sync has failed, such batches are written once more, so that the next sync
    is one of them too: what lies before a recovery point is never looked at again.
    """
    size, file = segment.size, segment.file
    renews = log.config.flush_messages != LONG_MAX or log.storage.sync_may_have_failed
    segment.reset()
    segment.indexes.reset_aborted()
    end_offset = segment.base_offset
    try:
        for position, header, batch in scan_batches(file, 0, size):
            _check_batch(segment, position, header, batch, end_offset)
            if 0 <= header.leader_epoch < log.leader_epoch_cache.latest_epoch:
                # What was truncated before the crash has come back: a later leader has written since.
                raise InvalidBytesError(f"the epoch of the batch at byte {position} is an older one")
            if renews and header.last_offset >= log.recovery_point:
                file.write(position, (batch,))
            segment.note_batches(((header.size, header.last_offset, header.record_timestamp_max),))
            end_offset = header.next_offset
            log.leader_epoch_cache.note(header.leader_epoch, header.base_offset)
            completed = log.producer_state_manager.apply(header, batch)
            if completed is not None:
                aborted = log.producer_state_manager.complete(completed)
                if aborted is not None:
                    segment.indexes.add_aborted(aborted)
    except InvalidBytesError as error:
        at = segment.size
        is_unfinished = _is_unfinished(file, at, size, end_offset)
        is_reserve = log.config.preallocate and not any(file.read(at, min(HEADER_BYTES, size - at)))
        cut = Cut(at, size - at, _records_in(file, at, size), str(error), is_unfinished, is_reserve)
        file.truncate(at)
        # Whole batches must not be back before what is written next (see `truncation`), and what looks like
        # the beginning of one may be a whole one whose length is damaged.
        file.sync()
        return end_offset, cut
    return end_offset, None


def _is_unfinished(file: File, position: int, end: int, next_offset: int) -> bool:
    """Whether there is the beginning of the next batch and no more: a write that did not come to its end."""
    start = file.read(position, min(HEADER_BYTES, end - position))
    if len(start) < HEADER_BYTES:
        return True
    header = read_header(start)
    return header.magic == MAGIC and header.base_offset >= next_offset and header.size > end - position


def _check_batch(
    segment: LogSegment, position: int, header: BatchHeader, batch: memoryview, end_offset: int
) -> None:
    if not crc_matches(batch, 0, header):
        raise InvalidBytesError(f"the CRC of the batch at byte {position} does not match")
    if header.base_offset < end_offset:
        raise InvalidBytesError(f"offset {header.base_offset} at byte {position} is below {end_offset}")
    if header.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
        raise InvalidBytesError(
            f"offset {header.last_offset} at byte {position} is too far from the segment's"
        )


def _close_recovered(log: UnifiedLog, number: int) -> None:
    """All recovered segments but the last, whose indexes stay in memory, are synced by the next flush."""
    for segment in log.segments.from_number(number):
        if segment is not log.segments.active:
            segment.seal()
            segment.retire()
            log.unsynced.note_files(segment.path, *segment.indexes.paths())
    log.unsynced.note_folders(log.folder)


# -- gaps that Apache Kafka left -----------------------------------------------------------------------------


def was_open_in_kafka(log: UnifiedLog) -> bool:
    """Whether Apache Kafka was the last that had the log open, and did not close it. To be asked before
    anything is done to it."""
    reserve = log.config.segment_index_bytes // ENTRY_BYTES * ENTRY_BYTES
    disk, path = log.storage.disk, log.segments.active.stem + TIME_INDEX
    if not reserve or not disk.exists(path) or disk.size(path) != reserve:
        return False
    last = disk.open(path, writable=False).read(reserve - ENTRY_BYTES, ENTRY_BYTES)
    return last == bytes(ENTRY_BYTES)


def _close_gap(log: UnifiedLog, segment: LogSegment, end_offset: int, next_offset: int) -> None:
    """Have a recovered segment that ends at `end_offset` end where the next one begins, as far as its indexes
    can tell. Blocks for a sync."""
    last_offset = min(next_offset - 1, segment.base_offset + RELATIVE_OFFSET_MAX)
    place = build_batch(
        (),
        base_offset=end_offset,
        leader_epoch=log.leader_epoch_cache.latest_epoch,
        keep_offsets=True,
        last_offset_delta=last_offset - end_offset,
    )
    if last_offset >= end_offset and segment.size + len(place) <= POSITION_MAX:
        segment.append((place,))
        segment.note_batches(((len(place), last_offset, NO_TIMESTAMP),))
        segment.file.sync()
