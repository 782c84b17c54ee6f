"""Making a log durable without stopping the event loop.

`begin_flush` notes on the loop what must reach the disk, `Flush.sync` blocks in a thread, `finish_flush`
moves the recovery point on the loop again. Behind the recovery point everything is durable, and recovery does
not look there: batches, the indexes of closed segments, producer snapshots and the leader epochs. The active
segment's indexes need no sync, because recovery always makes them anew.

What is owed stays owed until a flush that took it has come back: of two that are under way at once, the one
that is faster must not vouch for what the other took.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.log.checkpoints import encode_epochs
from headrace.log.disk import Disk, File
from headrace.log.faults import FULL
from headrace.log.file_names import LEADER_EPOCHS

if TYPE_CHECKING:
    from headrace.log.partition_log import PartitionLog

ASIDE: Final = ".tmp"


class Owed:
    """Files and folders that must be synced before the recovery point may move, each with when it was
    noted."""

    __slots__ = ("_noted", "epochs_version", "files", "folders")

    def __init__(self) -> None:
        self._noted = 0
        self.files: dict[str, int] = {}
        self.folders: dict[str, int] = {}
        self.epochs_version = 0  # of the leader epochs, as their file has them

    def note_files(self, *paths: str) -> None:
        self._noted += 1
        self.files.update(dict.fromkeys(paths, self._noted))

    def note_folders(self, *paths: str) -> None:
        self._noted += 1
        self.folders.update(dict.fromkeys(paths, self._noted))

    def settle(self, flush: "Flush") -> None:
        """Forget what a flush made durable, unless it was noted again since."""
        for owed, synced in ((self.files, flush.paths), (self.folders, flush.folders)):
            for path, noted in synced.items():
                if owed.get(path) == noted:
                    del owed[path]
        if flush.epochs is not None:
            # A slow flush may have put an older table over a newer one: then the newer is owed again.
            is_newer = flush.epochs_version > self.epochs_version
            self.epochs_version = flush.epochs_version if is_newer else -1


@dataclass(slots=True)
class Flush:
    """What one flush makes durable: everything below `offset`."""

    offset: int
    generation: int
    disk: Disk
    files: list[File]
    paths: dict[str, int]
    folders: dict[str, int]
    epochs: tuple[str, bytes] | None
    epochs_version: int
    is_short: bool = False

    def sync(self) -> None:
        """Blocks: call it from a thread. OSError means that the directory can no longer be trusted.

        A full disk without room for the epochs is none: their file stays as it was, and the recovery point
        waits for a later flush (`is_short`).
        """
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
            with self._sparing_epochs():
                self.disk.replace_file(*self.epochs)

    def write_aside(self) -> None:
        """The first half of a sync together with many others: what is written here and before must be
        durable before `put_in_place`, and that once more after it.
        """
        self.files.clear()  # a process may not have a file open for each of so many logs
        if self.epochs is not None:
            path, data = self.epochs
            with self._sparing_epochs():
                file = self.disk.open(path + ASIDE, create=True)
                file.truncate(0)
                file.write(0, (data,))

    def put_in_place(self) -> None:
        if self.epochs is not None and not self.is_short:
            path, _ = self.epochs
            self.disk.rename(path + ASIDE, path)

    @contextmanager
    def _sparing_epochs(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno not in FULL:
                raise
            self.is_short = True


def begin_flush(log: "PartitionLog") -> Flush | None:
    """None where everything is durable already."""
    owed, epochs = log.owed, log.epochs
    epochs_owed = epochs.version != owed.epochs_version
    written = log.recovery_point < log.log_end_offset
    if not (written or epochs_owed or owed.files or owed.folders):
        return None
    files: list[File] = []
    if written:
        segments = log.segments
        files = [segment.file for segment in segments.from_number(segments.number_of(log.recovery_point))]
    text = (f"{log.folder}/{LEADER_EPOCHS}", encode_epochs(epochs.entries())) if epochs_owed else None
    return Flush(
        log.log_end_offset,
        log.generation,
        log.storage.disk,
        files,
        dict(owed.files),
        dict(owed.folders),
        text,
        epochs.version,
    )


def finish_flush(log: "PartitionLog", flush: Flush, now_ms: int) -> None:
    """Everything below `flush.offset` is durable, unless the log was truncated while the flush was under
    way."""
    if flush.is_short:
        return
    log.owed.settle(flush)
    if flush.generation == log.generation:
        log.recovery_point = max(log.recovery_point, flush.offset)
        log.last_flush_ms = now_ms
