"""Making a log durable without stopping the event loop.

`begin_flush` notes on the loop what must reach the disk, `Flush.sync` blocks in a thread, `finish_flush`
moves the recovery point on the loop again. Behind the recovery point everything is durable, and recovery does
not look there: batches, the indexes of closed segments, producer snapshots and the leader epochs. The active
segment's indexes need no sync, because recovery always makes them anew.

What is unsynced stays so until a flush that took it has come back: of two that are under way at once, the one
that is faster must not vouch for what the other took.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.base.errors import InvalidBytesError
from headrace.log.checkpoints import encode_aborted, encode_epochs
from headrace.log.disk import Disk, File
from headrace.log.faults import DISK_FULL
from headrace.log.file_names import ABORTED_SEALS, LEADER_EPOCHS
from headrace.log.leader_epoch_file_cache import LeaderEpochFileCache

if TYPE_CHECKING:
    from headrace.log.unified_log import UnifiedLog

ASIDE: Final = ".tmp"


class UnsyncedFiles:
    """Files and folders that must be synced before the recovery point may move, each with when it was
    noted."""

    __slots__ = ("_noted", "aborted_seals", "epochs_version", "files", "folders")

    def __init__(self) -> None:
        self._noted = 0
        self.files: dict[str, int] = {}
        self.folders: dict[str, int] = {}
        self.epochs_version = 0  # of the leader epochs, as their file has them
        self.aborted_seals: dict[int, tuple[int, int]] = {}  # of transaction indexes, as their file has them

    def note_files(self, *paths: str) -> None:
        self._noted += 1
        self.files.update(dict.fromkeys(paths, self._noted))

    def note_folders(self, *paths: str) -> None:
        self._noted += 1
        self.folders.update(dict.fromkeys(paths, self._noted))

    def forget_synced(self, flush: "Flush") -> None:
        """Forget what a flush made durable, unless it was noted again since."""
        for unsynced, synced in ((self.files, flush.paths), (self.folders, flush.folders)):
            for path, noted in synced.items():
                if unsynced.get(path) == noted:
                    del unsynced[path]
        if flush.epochs is not None:
            # A slow flush may have put an older table over a newer one: then the newer is unsynced again.
            is_newer = flush.epochs_version > self.epochs_version
            self.epochs_version = flush.epochs_version if is_newer else -1
        if flush.aborted is not None:
            self.aborted_seals = flush.aborted_seals


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
    aborted_seals: dict[int, tuple[int, int]]
    aborted: tuple[str, bytes] | None
    lacks_room: bool = False

    @property
    def texts(self) -> list[tuple[str, bytes]]:
        """Small files that are replaced as a whole: (path, content)."""
        return [text for text in (self.epochs, self.aborted) if text is not None]

    def sync(self) -> None:
        """Blocks: call it from a thread. OSError means that the directory can no longer be trusted.

        A full disk without room for the epochs is none: their file stays as it was, and the recovery point
        waits for a later flush (`lacks_room`).
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
        for text in self.texts:
            with self._sparing_texts():
                self.disk.replace_file(*text)

    def write_aside(self) -> None:
        """The first half of a sync together with many others: what is written here and before must be
        durable before `put_in_place`, and that once more after it.
        """
        self.files.clear()  # a process may not have a file open for each of so many logs
        for path, data in self.texts:
            with self._sparing_texts():
                file = self.disk.open(path + ASIDE, create=True)
                file.truncate(0)
                file.write(0, (data,))

    def put_in_place(self) -> None:
        for path, _ in self.texts if not self.lacks_room else ():
            self.disk.rename(path + ASIDE, path)

    @contextmanager
    def _sparing_texts(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise
            self.lacks_room = True


def begin_flush(log: "UnifiedLog") -> Flush | None:
    """None where everything is durable already."""
    unsynced, epochs = log.unsynced, log.leader_epoch_cache
    epochs_unsynced = epochs.version != unsynced.epochs_version
    written = log.recovery_point < log.log_end_offset
    if not (written or epochs_unsynced or unsynced.files or unsynced.folders):
        return None
    files: list[File] = []
    if written:
        segments = log.segments
        files = [segment.file for segment in segments.from_number(segments.number_of(log.recovery_point))]
    text = (f"{log.folder}/{LEADER_EPOCHS}", encode_epochs(epochs.entries())) if epochs_unsynced else None
    seals = _aborted_seals(log)
    is_told = seals == unsynced.aborted_seals
    return Flush(
        log.log_end_offset,
        log.generation,
        log.storage.disk,
        files,
        dict(unsynced.files),
        dict(unsynced.folders),
        text,
        epochs.version,
        seals,
        None if is_told else (f"{log.folder}/{ABORTED_SEALS}", encode_aborted(seals)),
    )


def _aborted_seals(log: "UnifiedLog") -> dict[int, tuple[int, int]]:
    """Of the transaction indexes as they are now, as far as they have been read: see `log_loader`."""
    indexes = [segment.indexes for segment in log.segments]
    return {each.base_offset: each.aborted_seal for each in indexes if each.aborted_seal[0]}


def forget_aborted_seals(log: "UnifiedLog") -> None:
    """Transaction indexes are about to be cut or replaced: a crash must not have the new ones taken for
    damaged ones. The next flush tells of them again."""
    if log.unsynced.aborted_seals:
        log.unsynced.aborted_seals = {}
        log.storage.disk.remove(f"{log.folder}/{ABORTED_SEALS}")


def finish_flush(log: "UnifiedLog", flush: Flush, now_ms: int) -> None:
    """Everything below `flush.offset` is durable, unless the log was truncated while the flush was under
    way."""
    if flush.lacks_room:
        return
    log.unsynced.forget_synced(flush)
    if flush.generation == log.generation:
        log.recovery_point = max(log.recovery_point, flush.offset)
        log.last_flush_ms = now_ms


# -- closing -------------------------------------------------------------------------------------------------

# A sync of the whole file system also waits for what other programs wrote: for a few logs that is too much.
TOGETHER_FROM: Final = 32

SyncAll = Callable[[], bool]
"""Makes everything durable; False where the system cannot do it at once."""


def write_out(log: "UnifiedLog") -> None:
    """Write what is only in memory, and note what must be synced.

    A log that has grown leaves behind what saves the next start a walk over it: the indexes of its last
    segment, a snapshot of its producers, the file of its epochs. One that is short is as quickly walked, and
    each of these is a new file, for which some file systems take a millisecond: whatever the walk would tell
    is left out.
    """
    active = log.segments.active
    active.seal(is_last=True)
    log.producer_state_manager.end_offset = log.log_end_offset
    is_short = len(log.segments) == 1 and active.is_short
    if log.size_bytes and not (is_short and not log.producer_state_manager.producers):
        snapshot = log.snapshots.take(log.producer_state_manager)
        if snapshot is not None:
            log.unsynced.note_files(snapshot)
    if is_short and not _epochs_tell_more(log):
        log.unsynced.epochs_version = log.leader_epoch_cache.version
    log.unsynced.note_files(active.path, *active.indexes.paths())


def _epochs_tell_more(log: "UnifiedLog") -> bool:
    """Whether the file of epochs is there, and so must be right, or says what the batches do not."""
    if log.storage.disk.exists(f"{log.folder}/{LEADER_EPOCHS}"):
        return True
    known, found = LeaderEpochFileCache(log.leader_epoch_cache.entries()), LeaderEpochFileCache()
    known.truncate_from_end(log.log_end_offset)
    try:
        for _, header in log.segments.active.headers():
            found.note(header.leader_epoch, header.base_offset)
    except InvalidBytesError:
        return True
    return known.entries() != found.entries()


def close_logs(logs: Sequence["UnifiedLog"], sync_all: SyncAll) -> None:
    """Write out and sync, so that the next start need not recover the logs; OSError where the disk fails.
    Blocks.

    A log that is closed needs up to eight syncs: its files, its folders and the file of its epochs. A few
    logs are synced one by one. Where there are many, all of them are written first and the file system is
    synced as a whole: ten thousand logs close in seconds instead of minutes.
    """
    if len(logs) < TOGETHER_FROM or not _close_together(logs, sync_all):
        for log in logs:
            flush = log.close()
            if flush is not None:
                flush.sync()
                log.finish_flush(flush, now_ms=log.last_flush_ms)


def _close_together(logs: Sequence["UnifiedLog"], sync_all: SyncAll) -> bool:
    """False where the system cannot sync everything: nothing is vouched for then."""
    flushes: list[tuple[UnifiedLog, Flush]] = []
    for log in logs:
        flush = log.close()
        if flush is not None:
            flush.write_aside()
            flushes.append((log, flush))
    if flushes:
        if not sync_all():
            return False
        aside = [flush for _, flush in flushes if flush.texts]
        for flush in aside:
            flush.put_in_place()
        if aside:
            sync_all()
    for log, flush in flushes:
        log.finish_flush(flush, now_ms=log.last_flush_ms)
    return True
