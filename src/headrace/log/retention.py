"""Dropping old data: by age, by size, and below the log's start.

Only whole closed segments go, oldest first, and never past the high watermark. Their files are renamed at
once, so that a crash finishes the work, and removed after `file.delete.delay.ms`; a slice that is being sent
keeps its file open.

A tiered topic's settings for age and size hold for both tiers together, and the leader removes what they no
longer keep from the remote store (`remote_log.expiration`). Here only the local tail is kept short, by
`local.retention.ms` and `local.retention.bytes`: what lies in the remote store leaves the disk, and the log
starts where it did. Only closed segments are copied, so an active one that the limits no longer keep is
closed, on every replica, once it is the only one left: else what was written last would never expire.
"""

import logging
from typing import TYPE_CHECKING

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.log.log_segment import LogSegment
from headrace.log.log_segments import mark_deleted, roll_to

if TYPE_CHECKING:
    from headrace.log.unified_log import UnifiedLog

logger = logging.getLogger(__name__)


def delete_old_segments(log: "UnifiedLog", now_ms: int) -> int:
    """Drop what the topic's settings no longer keep; the number of segments dropped."""
    dropped = 0
    if _is_tiered(log):
        dropped += _drop_tiered(log, now_ms)
    elif log.config.deletes:
        dropped += _drop_oldest(log, _count_old(log, now_ms, log.config.retention_ms), now_ms)
        dropped += _drop_oldest(log, _count_over_size(log, log.config.retention_bytes), now_ms)
    return dropped + _drop_oldest(log, _count_below_start(log), now_ms)


def _is_tiered(log: "UnifiedLog") -> bool:
    """Whether another than this disk decides when the log's oldest records go. A topic that copies no more
    is like any other, once nothing of it is left in the remote store.
    """
    config = log.config
    if not config.remote_storage_enable:
        return False
    return not config.remote_log_copy_disable or log.segments.first.base_offset > log.log_start_offset


def _drop_tiered(log: "UnifiedLog", now_ms: int) -> int:
    """Drop segments that lie wholly in the remote store, as far as the local limits say; close the active
    one where nothing but it is left and they would not keep it either.
    """
    if log.tiered_to is None:
        return 0
    count = _count_beyond(log, now_ms, _tiered_bound(log, log.tiered_to))
    if count:
        _leave_to_remote(log, count, now_ms)
    if len(log.segments) == 1 and _count_beyond(log, now_ms):
        roll_to(log, log.log_end_offset, now_ms)
    return count


def _tiered_bound(log: "UnifiedLog", tiered_to: int) -> int:
    """Where what may leave the disk for the remote store ends."""
    # What is not synced yet tells after a crash which leader epochs there were, and so does all of the log
    # until their file is.
    bound = min(tiered_to, log.recovery_point)
    if log.unsynced.epochs_version != log.leader_epoch_cache.version:
        bound = 0
    if bound < tiered_to:
        log.want_flush()
    return bound


def _count_beyond(log: "UnifiedLog", now_ms: int, bound: int | None = None) -> int:
    """How many segments the local limits no longer keep."""
    local_ms, local_bytes = log.config.local_limits
    return max(_count_old(log, now_ms, local_ms, bound), _count_over_size(log, local_bytes, bound))


def _leave_to_remote(log: "UnifiedLog", count: int, now_ms: int) -> None:
    following = log.segments.base_after(count - 1)
    assert following is not None, "the active segment is in no remote store"
    if log.log_start_offset < log.tiered_from:
        # A crash had forgotten that the log moved on, after it was removed from the remote store.
        move_log_start(log, min(log.tiered_from, following))
    if log.segments.first.base_offset <= log.log_start_offset < following:
        # From now on the names of the files do not tell where the log starts.
        log.storage.on_start_apart(log)
    discard(log, log.segments.drop_first(count), now_ms)


def _count_old(log: "UnifiedLog", now_ms: int, retention_ms: int, bound: int | None = None) -> int:
    if retention_ms < 0:
        return 0
    count = 0
    for segment in log.segments:
        if not _may_go(log, count, segment, bound) or now_ms - segment.largest_timestamp() <= retention_ms:
            break
        count += 1
    return count


def _count_over_size(log: "UnifiedLog", retention_bytes: int, bound: int | None = None) -> int:
    over_bytes = log.segments.size_bytes - retention_bytes
    if retention_bytes < 0 or over_bytes <= 0:
        return 0
    count = 0
    for segment in log.segments:
        over_bytes -= segment.size
        if not _may_go(log, count, segment, bound) or over_bytes < 0:
            break
        count += 1
    return count


def _count_below_start(log: "UnifiedLog") -> int:
    count = 0
    for segment in log.segments:
        following = log.segments.base_after(count)
        if following is None or following > log.log_start_offset or not _may_go(log, count, segment):
            break
        count += 1
    return count


def _may_go(log: "UnifiedLog", number: int, segment: LogSegment, bound: int | None = None) -> bool:
    """Whether a segment is closed and committed, and ends at or before `bound`."""
    following = log.segments.base_after(number)
    if bound is not None and (following is None or following > bound):
        return False
    end_offset = log.log_end_offset if following is None else following
    return end_offset <= log.high_watermark and (following is not None or segment.size > 0)


def _drop_oldest(log: "UnifiedLog", count: int, now_ms: int) -> int:
    """Segments leave the log, then their files change names; the log start follows."""
    if not count:
        return 0
    if count == len(log.segments):
        roll_to(log, log.log_end_offset, now_ms)
    dropped = log.segments.drop_first(count)
    move_log_start(log, log.segments.first.base_offset)
    discard(log, dropped, now_ms)
    return count


def discard(log: "UnifiedLog", segments: list[LogSegment], now_ms: int) -> None:
    """Rename the files of segments that are no longer part of the log, and have them removed later."""
    due_ms = now_ms + log.config.file_delete_delay_ms
    for segment in segments:
        logger.debug(
            "%s: the segment from offset %d on, of %d bytes, is deleted; its files go in %d ms",
            *(log.folder, segment.base_offset, segment.size, log.config.file_delete_delay_ms),
        )
        for path in mark_deleted(log.storage, segment):
            log.storage.removals.schedule(path, due_ms)
        log.snapshots.remove(segment.base_offset)


def maybe_increment_log_start_offset(log: "UnifiedLog", offset: int) -> bool:
    """DeleteRecords: nothing below `offset` is there any more. False where the log starts there or later
    already."""
    if offset > log.high_watermark:
        raise ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{log.topic_partition} cannot start at {offset}, above its high watermark {log.high_watermark}",
        )
    if offset <= log.log_start_offset:
        return False
    move_log_start(log, offset)
    return True


def move_log_start(log: "UnifiedLog", offset: int) -> None:
    if offset > log.log_start_offset:
        log.log_start_offset = offset
        if not log.config.remote_storage_enable:
            log.leader_epoch_cache.truncate_from_start(offset)
        # Of a tiered log a crash forgets the start, back to the last checkpoint, and no file of it on this
        # disk tells better. What is in the remote store does, to who knows the epochs from that start on. So
        # they stay, until the log is opened again.
        log.producer_state_manager.on_log_start(offset)
