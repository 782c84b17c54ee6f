"""Making a log durable without stopping the event loop.

`begin_flush` notes on the loop what must reach the disk, `Flush.sync` blocks in a thread, `finish_flush`
moves the recovery point on the loop again. Behind the recovery point everything is durable, and recovery does
not look there: batches, the indexes of closed segments, producer snapshots and the leader epochs. The active
segment's indexes need no sync, because recovery always makes them anew.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.log.checkpoints import encode_epochs
from headrace.log.disk import Disk, File
from headrace.log.file_names import LEADER_EPOCHS

if TYPE_CHECKING:
    from headrace.log.partition_log import PartitionLog


@dataclass(slots=True)
class Flush:
    """What one flush makes durable: everything below `offset`."""

    offset: int
    generation: int
    disk: Disk
    files: list[File]
    paths: list[str]
    epochs: tuple[str, bytes] | None
    folders: list[str]

    def sync(self) -> None:
        """Blocks: call it from a thread. OSError means that the directory can no longer be trusted."""
        for file in self.files:
            file.sync()
        for path in self.paths:
            try:
                self.disk.open(path).sync()
            except FileNotFoundError:
                continue  # a snapshot or index whose segment was deleted meanwhile
        for folder in self.folders:
            self.disk.sync_folder(folder)
        if self.epochs is not None:
            self.disk.replace_file(*self.epochs)


def begin_flush(log: "PartitionLog") -> Flush | None:
    """None where everything is durable already."""
    epochs = log.epochs
    owed = log.unsynced_paths or log.unsynced_folders or epochs.dirty
    if log.recovery_point >= log.log_end_offset and not owed:
        return None
    segments = log.segments
    files: list[File] = []
    if log.recovery_point < log.log_end_offset:
        unflushed = segments.from_number(segments.number_of(log.recovery_point))
        files = [segment.file for segment in unflushed]
    text = None
    if epochs.dirty:
        text = (f"{log.folder}/{LEADER_EPOCHS}", encode_epochs(epochs.entries()))
        epochs.dirty = False
    flush = Flush(
        log.log_end_offset,
        log.generation,
        log.storage.disk,
        files,
        log.unsynced_paths,
        text,
        log.unsynced_folders,
    )
    log.unsynced_paths = []
    log.unsynced_folders = []
    return flush


def finish_flush(log: "PartitionLog", flush: Flush, now_ms: int) -> None:
    """Everything below `flush.offset` is durable, unless the log was truncated while the flush was on its
    way."""
    if flush.generation == log.generation:
        log.recovery_point = max(log.recovery_point, flush.offset)
        log.last_flush_ms = now_ms


def abandon_flush(log: "PartitionLog", flush: Flush) -> None:
    """The sync failed: what it was to make durable is still owed."""
    log.unsynced_paths = flush.paths + log.unsynced_paths
    log.unsynced_folders = flush.folders + log.unsynced_folders
    if flush.epochs is not None:
        log.epochs.dirty = True
