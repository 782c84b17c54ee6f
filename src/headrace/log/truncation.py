"""Cutting a log back to what its leader has too, or starting it anew.

Offsets that were handed out are taken back here and nowhere else. Whatever remembers them follows: indexes,
epochs, producer state (from a snapshot and the batches behind it), the high watermark, the recovery point,
and flushes on their way, which no longer prove anything (`generation`).

A power cut may bring back what was cut. It must never lie before what was written later: batches of the same
size would take each other's place without a trace.
"""

from typing import TYPE_CHECKING

from headrace.base.errors import ApiError
from headrace.log.checkpoints import encode_epochs
from headrace.log.file_names import LEADER_EPOCHS
from headrace.log.flush import forget_aborted_seals
from headrace.log.leader_epoch_file_cache import LeaderEpochFileCache
from headrace.log.log_segments import create_segment, roll_to
from headrace.log.producer_snapshots import ProducerEntry, encode_snapshot
from headrace.log.producer_state_rebuild import rebuild_producers
from headrace.log.retention import discard

if TYPE_CHECKING:
    from headrace.log.unified_log import UnifiedLog


def truncate_to(log: "UnifiedLog", offset: int, now_ms: int) -> bool:
    """Drop everything at or above `offset`; False where the log ends there already."""
    if offset >= log.log_end_offset:
        log.leader_epoch_cache.truncate_from_end(offset)
        return False
    if offset < log.segments.first.base_offset:
        start, epochs = log.log_start_offset, LeaderEpochFileCache(log.leader_epoch_cache.entries())
        truncate_fully_and_start_at(log, offset, now_ms)
        if start < offset:  # what lies before is in the remote store, and stays part of the log
            log.log_start_offset = start
            epochs.truncate_from_end(offset)
            log.leader_epoch_cache.take_over(epochs)
        return True
    number = log.segments.number_of(offset)
    forget_aborted_seals(log)
    _drop_durably(log, number + 1, now_ms)
    active = log.segments.active
    active.reopen()
    end_offset = active.truncate(offset)
    active.start_tail(end_offset)
    log.generation += 1
    log.log_end_offset = end_offset
    log.log_start_offset = min(log.log_start_offset, end_offset)
    move_recovery_point_back(log, end_offset)
    log.high_watermark = min(log.high_watermark, end_offset)
    log.leader_epoch_cache.truncate_from_end(end_offset)
    rebuild_producers(
        log.producer_state_manager, log.snapshots, log.segments, log.log_start_offset, end_offset, now_ms
    )
    _leave_cut_file(log, now_ms)
    return True


def _leave_cut_file(log: "UnifiedLog", now_ms: int) -> None:
    """Go on in a new segment: recovery sees where the old one reaches into it. To sync the old one instead
    would take as long as the system has put off writing what is left of it; nothing is left of an empty one,
    and without room for a new segment there is no other way. Blocks; rare.
    """
    active = log.segments.active
    try:
        if active.size:
            roll_to(log, log.log_end_offset, now_ms)
            return
    except ApiError:
        if log.failure is not None:
            raise
    active.file.sync()


def truncate_fully_and_start_at(log: "UnifiedLog", offset: int, now_ms: int) -> None:
    """An empty log that goes on at `offset`, as a follower needs whose leader has dropped what it lacks."""
    forget_aborted_seals(log)
    _drop_durably(log, 0, now_ms)
    log.snapshots.remove_outside(above=offset, up_to=offset)
    segment = create_segment(log.storage, log.folder, offset, config=log.config, now_ms=now_ms)
    segment.start_tail(offset)
    log.segments.add(segment)
    log.generation += 1
    log.log_start_offset = log.log_end_offset = log.high_watermark = offset
    move_recovery_point_back(log, offset)
    log.leader_epoch_cache.clear()
    log.producer_state_manager.clear(offset)


def start_behind_remote(
    log: "UnifiedLog",
    offset: int,
    *,
    log_start_offset: int,
    epochs: list[tuple[int, int]],
    producers: list[ProducerEntry],
    now_ms: int,
) -> None:
    """An empty log that goes on at `offset` and starts before, in the remote store. Blocks; rare.

    Its epochs and producers cannot be found again in batches, so they are durable before the segment is there
    that starts behind them. A crash on the way leaves an empty log at its start, or all of it.
    """
    disk = log.storage.disk
    log.log_start_offset = log_start_offset
    log.storage.on_start_apart(log)
    _drop_durably(log, 0, now_ms)
    log.snapshots.remove_outside(above=offset, up_to=offset)
    disk.replace_file(f"{log.folder}/{LEADER_EPOCHS}", encode_epochs(epochs))
    disk.replace_file(log.snapshots.path(offset), encode_snapshot(producers))
    truncate_fully_and_start_at(log, offset, now_ms)
    log.log_start_offset = log_start_offset
    log.leader_epoch_cache.take_over(LeaderEpochFileCache(epochs))
    log.leader_epoch_cache.truncate_from_start(log_start_offset)
    log.snapshots.offsets.append(offset)
    log.producer_state_manager.restore(
        producers, offset, now_ms=now_ms, expiry_ms=log.storage.producer_expiry_ms
    )


def _drop_durably(log: "UnifiedLog", number: int, now_ms: int) -> None:
    """Drop segments so that no power cut brings them back behind what is written next. Blocks; rare."""
    dropped = log.segments.drop_from(number)
    if dropped:
        discard(log, dropped, now_ms)
        log.storage.disk.sync_folder(log.folder)


def move_recovery_point_back(log: "UnifiedLog", end_offset: int) -> None:
    """A checkpointed recovery point above the new end would vouch for what is written there next; so would
    the offset up to which the log is clean, and delete markers would go before what they delete."""
    if log.cleaner_checkpoint is not None and log.cleaner_checkpoint > end_offset:
        log.cleaner_checkpoint = end_offset
        log.storage.on_cleaner_checkpoint_back(log)
    if log.recovery_point > end_offset:
        log.recovery_point = end_offset
        log.storage.on_recovery_point_back(log)
