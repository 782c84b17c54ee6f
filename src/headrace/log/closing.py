"""Closing the logs of a folder, so that the next start need not recover them.

A sync costs a trip to the disk, and a log that is closed needs up to eight of them: its files, its folders
and the file of its epochs. A few logs are synced one by one. Where there are many, all of them are written
first and the file system is synced as a whole: ten thousand logs close in seconds instead of minutes.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from headrace.log.flush import Flush

if TYPE_CHECKING:
    from headrace.log.partition_log import PartitionLog

# A sync of the whole file system also waits for what other programs wrote: for a few logs that is too much.
TOGETHER_FROM: Final = 32

SyncAll = Callable[[], bool]
"""Makes everything durable; False where the system cannot do it at once."""


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
        for _, flush in flushes:
            flush.put_in_place()
        sync_all()
    for log, flush in flushes:
        log.finish_flush(flush, now_ms=log.last_flush_ms)
    return True
