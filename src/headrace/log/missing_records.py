"""Records that a closed segment has lost: its file was cut short, or is gone.

A log's segments follow each other without a gap, but where Apache Kafka's compaction dropped the last batches
of one. So when a log is opened, the end of every closed segment is walked to from the last entry of its
index, which costs a few small reads. What does not lead to a whole batch is no part of the segment any more:
readers go on with the next one, the log says so, and `missing_from` tells a follower from where to fetch
again (`replication.follower_log.fetch_missing`).

A file that is cut while it is open is found out when a reply cannot be sent to its end (`LogSegment.doubt`):
the next read looks again.
"""

import logging
from typing import TYPE_CHECKING, Final

from headrace.base.errors import InvalidBytesError
from headrace.log.batch_scan import scan_headers
from headrace.log.file_names import INDEX
from headrace.log.log_segment import LogSegment
from headrace.log.offset_index import ENTRY_BYTES, OffsetIndex

if TYPE_CHECKING:
    from headrace.log.unified_log import UnifiedLog

logger = logging.getLogger(__name__)

FETCHED_AGAIN: Final = (
    "A replica fetches what is missing from its leader; without another replica it is lost."
)


def check_closed_segments(log: "UnifiedLog", count: int) -> None:
    """Look at the ends of so many segments, from the first on; OSError where the disk fails."""
    for number in range(min(count, len(log.segments) - 1)):
        check_end(log, number)


def check_end(log: "UnifiedLog", number: int) -> None:
    """Let a closed segment end with its last whole batch, and tell what is missing behind it."""
    segment, following = log.segments[number], log.segments.base_after(number)
    assert following is not None, "the active segment grows"
    position, end_offset = _walk_to_end(segment)
    is_cut = position < segment.size
    # Apache Kafka's compaction leaves gaps; what lies before the log's start is wanted by nobody.
    may_have_gap = log.config.compacts or following <= max(log.cleaner_checkpoint or 0, log.log_start_offset)
    if not is_cut and (end_offset >= following or may_have_gap):
        return
    if is_cut and end_offset >= following:
        logger.warning(
            "%s: %d bytes behind the last batch of %s are none of the log's, and are passed over",
            log.topic_partition,
            segment.size - position,
            segment.path,
        )
        log.segments.inactive_bytes -= segment.size - position
        segment.size = position
        return
    logger.warning(
        "%s: records are missing from offset %d to %d: %s ends %s. Consumers go on at offset %d. %s",
        log.topic_partition,
        end_offset,
        following - 1,
        segment.path,
        f"inside of a batch, {segment.size - position} bytes behind byte {position}"
        if is_cut
        else f"at byte {position}",
        following,
        FETCHED_AGAIN,
    )
    log.note_missing(number, position, end_offset)


def note_damaged(log: "UnifiedLog", first_offset: int, last_offset: int, what: str) -> None:
    """Tell of records whose bytes have changed, and have a replica fetch them again. Readers are still sent
    what there is: who checks CRCs is told by them."""
    logger.warning(
        "%s: records from offset %d to %d are damaged: %s. %s",
        log.topic_partition,
        first_offset,
        last_offset,
        what,
        FETCHED_AGAIN,
    )
    log.missing_from = first_offset if log.missing_from is None else min(log.missing_from, first_offset)
    log.storage.on_missing(log)


def _walk_to_end(segment: LogSegment) -> tuple[int, int]:
    """(the byte, the offset) behind the segment's last whole batch."""
    start = _last_entry(segment)
    found = _walk(segment, start)
    return _walk(segment, 0) if start and found[0] == start else found


def _walk(segment: LogSegment, position: int) -> tuple[int, int]:
    """The same from a batch on."""
    end_offset = segment.base_offset
    try:
        for at, header in scan_headers(segment.file, position, segment.size):
            if header.base_offset < end_offset:
                break
            position, end_offset = at + header.size, header.next_offset
    except InvalidBytesError:
        pass  # it ends before
    return position, end_offset


def _last_entry(segment: LogSegment) -> int:
    """Where the last batch starts that the offset index has an entry for; 0 without one that can be.

    Damage in the middle of a segment is no end of it: what lies behind is found by the index.
    """
    disk, path = segment.disk, segment.stem + INDEX
    try:
        end = disk.size(path) // ENTRY_BYTES * ENTRY_BYTES
        data = disk.open(path, writable=False).read(end - ENTRY_BYTES, ENTRY_BYTES) if end else b""
    except FileNotFoundError:
        return 0
    if len(data) < ENTRY_BYTES:
        return 0
    _, position = OffsetIndex(segment.base_offset, data).entry(0)
    return position if 0 < position < segment.size else 0
