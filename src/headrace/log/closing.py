"""Closing the logs of a folder, so that the next start need not recover them.

A log that has grown leaves behind what saves the next start a walk over it: the indexes of its last segment,
a snapshot of its producers, the file of its epochs. One that is short is as quickly walked, and each of these
is a new file, for which some file systems take a millisecond: whatever the walk would tell is left out.

A sync costs a trip to the disk, and a log that is closed needs up to eight of them: its files, its folders
and the file of its epochs. A few logs are synced one by one. Where there are many, all of them are written
first and the file system is synced as a whole: ten thousand logs close in seconds instead of minutes.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from headrace.base.errors import InvalidBytesError
from headrace.log.file_names import LEADER_EPOCHS
from headrace.log.flush import Flush
from headrace.log.leader_epochs import LeaderEpochs

if TYPE_CHECKING:
    from headrace.log.partition_log import PartitionLog

# A sync of the whole file system also waits for what other programs wrote: for a few logs that is too much.
TOGETHER_FROM: Final = 32

SyncAll = Callable[[], bool]
"""Makes everything durable; False where the system cannot do it at once."""


def write_out(log: "PartitionLog") -> None:
    """Write what is only in memory, and note what must be synced."""
    active = log.segments.active
    active.seal(is_last=True)
    log.producers.end_offset = log.log_end_offset
    is_short = len(log.segments) == 1 and active.is_short
    if log.size_bytes and not (is_short and not log.producers.producers):
        snapshot = log.snapshots.take(log.producers)
        if snapshot is not None:
            log.owed.note_files(snapshot)
    if is_short and not _epochs_tell_more(log):
        log.owed.epochs_version = log.epochs.version
    log.owed.note_files(active.path, *active.indexes.paths())


def _epochs_tell_more(log: "PartitionLog") -> bool:
    """Whether the file of epochs is there, and so must be right, or says what the batches do not."""
    if log.storage.disk.exists(f"{log.folder}/{LEADER_EPOCHS}"):
        return True
    known, found = LeaderEpochs(log.epochs.entries()), LeaderEpochs()
    known.truncate_from_end(log.log_end_offset)
    try:
        for _, header in log.segments.active.headers():
            found.note(header.leader_epoch, header.base_offset)
    except InvalidBytesError:
        return True
    return known.entries() != found.entries()


def close_logs(logs: Sequence["PartitionLog"], sync_all: SyncAll) -> None:
    """Write out and sync; OSError where the disk fails. Blocks."""
    if len(logs) < TOGETHER_FROM or not _close_together(logs, sync_all):
        for log in logs:
            flush = log.close()
            if flush is not None:
                flush.sync()
                log.finish_flush(flush, now_ms=log.last_flush_ms)


def _close_together(logs: Sequence["PartitionLog"], sync_all: SyncAll) -> bool:
    """False where the system cannot sync everything: nothing is vouched for then."""
    flushes: list[tuple[PartitionLog, Flush]] = []
    for log in logs:
        flush = log.close()
        if flush is not None:
            flush.write_aside()
            flushes.append((log, flush))
    if flushes:
        if not sync_all():
            return False
        aside = [flush for _, flush in flushes if flush.epochs is not None]
        for flush in aside:
            flush.put_in_place()
        if aside:
            sync_all()
    for log, flush in flushes:
        log.finish_flush(flush, now_ms=log.last_flush_ms)
    return True
