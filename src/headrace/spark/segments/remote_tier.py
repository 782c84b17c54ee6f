"""The part of a partition that lies in a remote store, in front of what is in its folder.

A folder of a tiered partition holds the end of the log. `TieredDisk` shows it with the segments in the store
in front, under the names that they had as files, so that whatever reads segments reads both. Objects are read
in ranges, the next one while the last is being unpacked.

Between the last remote segment and the folder's first there must be no gap: one would be taken for records
that compaction took out. Where the two have come apart since they were listed, because the broker copied on
and deleted, only the remote ones are shown; the rest is then not in the files, and a broker has it.
"""

import builtins
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final

from headrace.base.errors import InvalidBytesError
from headrace.log.checkpoints import decode_epochs
from headrace.log.disk import Disk, File
from headrace.log.file_names import (
    INDEX,
    LOG,
    SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
    offset_name,
    parse_segment_file,
)
from headrace.log.leader_epoch_file_cache import LeaderEpochFileCache
from headrace.log.producer_snapshots import decode_snapshot
from headrace.log.system_disk import SystemDisk
from headrace.spark.segments.errors import NotInFilesError
from headrace.tiered.metadata_cache import RemoteLogMetadataCache, lineage_end
from headrace.tiered.remote_storage import RemoteStorageError, RemoteStorageManager, read_whole, store_of
from headrace.tiered.segment_metadata import EPOCHS, RemoteLogSegmentMetadata, TopicIdPartition
from headrace.tiered.stores.object_disk import PIECE_BYTES, ObjectDisk, ObjectFile
from headrace.tiered.stores.opening import STORE_CLASS, STORE_PREFIX, open_broker_store, open_url

log = logging.getLogger(__name__)

_SUFFIXES: Final = (LOG, INDEX, TIME_INDEX, TXN_INDEX)
# As much as is unpacked at a time: one such range is on its way while the one before it is worked on.
_AHEAD_BYTES: Final = 8 << 20

# Transactions are short beside a segment: of one that is not decided in some of them, a broker is asked.
_SNAPSHOTS_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """A store by its URL, or by a class of the user's own, which takes a URL as one setting of many."""

    url: str | None
    class_name: str | None = None
    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """May hold credentials."""


@cache
def open_remote(address: StoreAddress) -> RemoteStorageManager:
    """A store, opened once in a process; SettingError where what names it is wrong."""
    settings = dict(address.settings)
    if address.class_name is None:
        assert address.url is not None
        return open_url(address.url, settings, SystemDisk(), setting="store.url")
    if address.url is not None:
        settings["url"] = address.url
    behind_prefix = {f"{STORE_PREFIX}{name}": value for name, value in settings.items()}
    return open_broker_store({STORE_CLASS: address.class_name, **behind_prefix}, SystemDisk())


@dataclass(frozen=True, slots=True)
class RemoteTier:
    """Segments of one partition in a store: in order, each from where the one before it ends, or earlier."""

    store: StoreAddress
    segments: tuple[RemoteLogSegmentMetadata, ...]

    @property
    def end_offset(self) -> int:
        return self.segments[-1].end_offset + 1

    def within(self, start: int, end: int, *, is_committed: bool) -> "RemoteTier | None":
        """What a task needs that reads [start, end): its segments; and where it reads only what is committed,
        later ones that tell of transactions."""
        kept: list[RemoteLogSegmentMetadata] = []
        later = 0
        for each in self.segments:
            if each.end_offset < start:
                continue
            if each.start_offset >= end:
                later += 1
                if not is_committed or (not each.has_aborted and later >= _SNAPSHOTS_MAX):
                    continue
            kept.append(each)
        return replace(self, segments=tuple(kept)) if kept else None

    def decides(self, store: RemoteStorageManager, upto: int) -> bool:
        """Whether the lists beside these segments have all aborted transactions with records below `upto`: so
        it is where no such transaction was open at the end of one of them, as its snapshot tells.
        """
        behind = [each for each in self.segments if each.end_offset + 1 >= upto]
        for segment in behind[:_SNAPSHOTS_MAX]:
            try:
                entries = decode_snapshot(read_whole(store_of(store, segment), segment.object_name(SNAPSHOT)))
            except (RemoteStorageError, InvalidBytesError):
                continue
            if not any(0 <= each.txn_first_offset < upto for each in entries):
                return True
        return False


def without_gaps(
    segments: Sequence[RemoteLogSegmentMetadata], upto: int
) -> tuple[RemoteLogSegmentMetadata, ...]:
    """Of segments in order, the last ones that follow each other and reach `upto`; none where they do not."""
    kept: list[RemoteLogSegmentMetadata] = []
    for segment in reversed(segments):
        if segment.end_offset + 1 < upto:
            break
        kept.append(segment)
        upto = min(upto, segment.start_offset)
    return tuple(reversed(kept))


class RemoteLineages:
    """The epochs that logs had when their segments were copied: a file beside each segment in the store.

    A copy that a deposed leader made of records that the log lost since must not be read.
    """

    def __init__(self, store: RemoteStorageManager) -> None:
        self._store = store
        self._known: dict[TopicIdPartition, tuple[bytes, LeaderEpochFileCache]] = {}

    def readable(
        self, remote: RemoteLogMetadataCache, last: RemoteLogSegmentMetadata
    ) -> list[RemoteLogSegmentMetadata]:
        """Segments up to a last one, all of whose records are those of the log that has it; in order."""
        lineage = self._of(last)
        return [
            each for each in remote.readable(lineage) if lineage_end(lineage, each) == each.end_offset + 1
        ]

    def _of(self, segment: RemoteLogSegmentMetadata) -> LeaderEpochFileCache:
        """A log's epochs up to this segment; none where they cannot be read."""
        segment_id, known = self._known.get(segment.partition, (b"", LeaderEpochFileCache()))
        if segment_id != segment.segment_id:
            name = segment.object_name(EPOCHS)
            try:
                known = LeaderEpochFileCache(decode_epochs(read_whole(store_of(self._store, segment), name)))
            except (RemoteStorageError, InvalidBytesError) as error:
                log.warning("records are read without the remote store: %s: %s", name, error)
                return LeaderEpochFileCache()
            self._known[segment.partition] = segment.segment_id, known
        return known


class TieredDisk(ObjectDisk):
    """A disk on which some folders show what is in a store as well. It is only read."""

    def __init__(self, disk: Disk, store: RemoteStorageManager, tiers: Mapping[str, RemoteTier]) -> None:
        super().__init__(store)
        self._disk = disk
        self._objects: dict[str, RemoteLogSegmentMetadata] = {
            f"{folder}/{offset_name(segment.start_offset)}": segment
            for folder, tier in tiers.items()
            for segment in tier.segments
        }
        self._tiers = tiers

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        segment = self._segment(path)
        if segment is None or self._disk.exists(path):
            return self._disk.open(path, create=create, writable=writable)
        return AheadFile(store_of(self._store, segment), segment.object_name(LOG), segment.size)

    def read_file(self, path: str) -> bytes:
        segment = self._segment(path)
        if segment is None or self._disk.exists(path):
            return self._disk.read_file(path)
        if path.endswith(TXN_INDEX) and not segment.has_aborted:
            raise FileNotFoundError(path)
        try:
            return read_whole(store_of(self._store, segment), segment.object_name(path[path.rindex(".") :]))
        except RemoteStorageError as error:
            raise NotInFilesError(f"it cannot be read: {error}") from error

    def size(self, path: str) -> int:
        segment = self._segment(path)
        if segment is None or self._disk.exists(path):
            return self._disk.size(path)
        return segment.size

    def list(self, path: str) -> builtins.list[str]:
        tier = self._tiers.get(path)
        if tier is None:
            return self._disk.list(path)
        local = self._local_names(path)
        bases = [each.base_offset for each in map(parse_segment_file, local) if each and not each.state]
        first = min(bases, default=None)
        if first is None or first > tier.end_offset:
            local = []
        names = set(local)
        for segment in tier.segments:
            if first is None or segment.start_offset < first:
                stem = offset_name(segment.start_offset)
                names.update((stem + LOG, stem + INDEX, *([stem + TXN_INDEX] if segment.has_aborted else ())))
        return sorted(names)

    def exists(self, path: str) -> bool:
        return self._segment(path) is not None or self._disk.exists(path)

    def is_folder(self, path: str) -> bool:
        return path in self._tiers or self._disk.is_folder(path)

    def _local_names(self, path: str) -> Sequence[str]:
        try:
            return self._disk.list(path)
        except OSError:  # on another machine
            return []

    def _segment(self, path: str) -> RemoteLogSegmentMetadata | None:
        stem, dot, suffix = path.rpartition(".")
        return self._objects.get(stem) if dot + suffix in _SUFFIXES else None


class AheadFile(ObjectFile):
    """A segment that is read from front to back: while a range is worked on, the one behind it is fetched.
    NotInFilesError where the store fails: a broker may do better.
    """

    def __init__(self, store: RemoteStorageManager, name: str, size: int) -> None:
        super().__init__(store, name, size)
        self._last, self._last_start = b"", 0
        self._ahead: Future[bytes] | None = None
        self._thread = ThreadPoolExecutor(1, "headrace-remote")

    def __del__(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def read(self, position: int, count: int) -> bytes:
        end = min(position + count, self.size())
        if end - position < PIECE_BYTES:
            return super().read(position, count)
        at = position - self._last_start
        rest = self._last[at:] if 0 <= at <= len(self._last) else None
        if rest is None:
            self._ahead, rest = None, b""
        start = position + len(rest)
        if start >= end:
            return rest[: end - position]
        if self._ahead is not None:
            block = self._ahead.result()
        else:
            block = self.fetch(start, min(max(end, start + _AHEAD_BYTES), self.size()))
        self._last, self._last_start = block, start
        following = start + len(block)
        self._ahead = None
        if following < self.size():
            upto = min(following + _AHEAD_BYTES, self.size())
            self._ahead = self._thread.submit(self.fetch, following, upto)
        if following < end:
            return rest + block + self.read(following, end - following)
        return rest + block[: end - start]

    def fetch(self, position: int, end: int) -> bytes:
        try:
            return super().fetch(position, end)
        except OSError as error:
            raise NotInFilesError(f"{self.path} cannot be read: {error.strerror}") from error
