"""A log whose older segments are in a remote store, and a reader of it, in virtual time."""

import asyncio
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from headrace.base.errors import ApiError
from headrace.log.checkpoints import encode_epochs
from headrace.log.file_names import INDEX, LOG, SNAPSHOT, TIME_INDEX, TXN_INDEX
from headrace.log.log_segment import LogSegment
from headrace.log.unified_log import UnifiedLog
from headrace.records.batch import Record, batches, read_records
from headrace.server.purgatory import Purgatory
from headrace.testing.disk import VirtualDisk
from headrace.tiered.metadata_cache import RemotePartitionMetadataStore
from headrace.tiered.reader import ReaderLimits, RemoteLogReader, RemoteWindow
from headrace.tiered.remote_index_cache import RemoteIndexCache
from headrace.tiered.remote_storage import RemoteStorageError, RemoteStorageManager
from headrace.tiered.segment_metadata import (
    EPOCHS,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from headrace.tiered.stores.folder import FolderStore
from headrace.tiered.window_memory import WindowMemory
from tests.log.building import LogBuilder

STORE = "/store"


class WatchedStore(FolderStore):
    """Knows what was read, and fails on demand."""

    def __init__(self, disk: VirtualDisk) -> None:
        disk.make_folder(STORE)
        super().__init__(disk, STORE)
        self.reads: list[tuple[str, int, int]] = []
        self.failing: set[str] = set()
        self.short = False
        self.flips: dict[str, int] = {}  # a byte that comes out wrong, by the end of an object's name

    def read(self, name: str, start: int, end: int) -> bytes:
        self.reads.append((name, start, end))
        if any(name.endswith(each) for each in self.failing):
            raise RemoteStorageError(f"{name}: the store is on fire")
        data = super().read(name, start, end)
        for ending, at in self.flips.items():
            if name.endswith(ending) and start <= at < start + len(data):
                at -= start
                data = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        return data[: len(data) // 2] if self.short else data

    def read_into(self, name: str, start: int, buffer: memoryview) -> int:
        data = self.read(name, start, start + len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def reads_of(self, suffix: str) -> list[tuple[str, int, int]]:
        return [read for read in self.reads if read[0].endswith(suffix)]


@dataclass
class Tiered:
    """One partition with both tiers."""

    disk: VirtualDisk = field(default_factory=VirtualDisk)
    memory: WindowMemory | None = None  # the reader's own
    window_bytes_max: int | None = None  # as the store says
    threads: int = 10
    pending_max: int = 100
    bytes_per_second: int = 1 << 62
    cache_bytes: int = 1 << 30

    def __post_init__(self) -> None:
        self.store = WatchedStore(self.disk)
        if self.window_bytes_max is not None:
            self.store.window_bytes_max = self.window_bytes_max
        self.disk.make_folder("/data")
        self.logs = LogBuilder(self.disk, "/data")
        self.remote_logs = RemotePartitionMetadataStore()
        self.waiting = Purgatory(asyncio.get_running_loop())
        self.indexes = self.new_indexes()
        self.reader = RemoteLogReader(
            self.store,
            self.indexes,
            self.remote_logs,
            loop=asyncio.get_running_loop(),
            executor=None,
            on_arrival=self.waiting.notify,
            limits=ReaderLimits(
                lambda: self.threads, lambda: self.pending_max, lambda: self.bytes_per_second
            ),
            memory=self.memory,
        )

    def new_indexes(self) -> RemoteIndexCache:
        return RemoteIndexCache(
            self.disk,
            "/data/remote-log-index-cache",
            self.store,
            bytes_max=lambda: self.cache_bytes,
            new_lock=Lock,
        )

    def open(self, **settings: Any) -> UnifiedLog:
        log = self.logs.open(**settings)
        self.partition = TopicIdPartition(log.topic_id, log.topic_partition)
        self.remote_logs.load(self.partition)
        return log

    @property
    def remote(self) -> Any:
        return self.remote_logs.known(self.partition)

    def copy(self, log: UnifiedLog) -> list[RemoteLogSegmentMetadata]:
        """Copy all closed segments that are not in the store yet."""
        return copy_closed(log, self.store, self.remote_logs)

    def drop_local(self, log: UnifiedLog, count: int) -> None:
        drop_local(log, count)

    def remove(self, segment: RemoteLogSegmentMetadata) -> None:
        self.store.delete(segment.object_names())

    async def read(self, log: UnifiedLog, offset: int, **bounds: Any) -> RemoteWindow:
        """Try until it is there, as a Fetch that waits does: after each arrival."""
        bounds = {"max_bytes": 1 << 20, "max_offset": log.high_watermark, **bounds}

        def attempt(expired: bool) -> RemoteWindow | None:
            assert not expired, f"offset {offset} did not come within a minute"
            return self.reader.read(log, offset, **bounds)

        found = attempt(False)
        if found is None:
            found = await self.waiting.watch([log.topic_partition], attempt, wait_ms=60_000)
        return found

    async def read_all(self, log: UnifiedLog, offset: int = 0, **bounds: Any) -> list[Record]:
        """Every record from `offset` on, from both tiers, as a consumer goes about it."""
        records: list[Record] = []
        while offset < log.high_watermark:
            if offset < log.local_start_offset:
                data, upper, _ = await self.read(log, offset, **bounds)
                if not data:
                    assert upper > offset
                    offset = upper
                    continue
            else:
                chunk = log.read(offset, max_bytes=1 << 20).chunk
                data = memoryview(chunk if isinstance(chunk, bytes) else chunk.read())
            for at, header in batches(data):
                records += [record for record in read_records(data, at) if record.offset >= offset]
                offset = header.next_offset
        return records

    async def refused(self, log: UnifiedLog, offset: int) -> ApiError:
        """The error with which a read ends."""
        try:
            await self.read(log, offset)
        except ApiError as error:
            return error
        raise AssertionError(f"offset {offset} could be read")


def drop_local(log: UnifiedLog, count: int) -> None:
    """The oldest local segments go; the log starts where it did."""
    for segment in log.segments.drop_first(count):
        segment.release()


def copy_closed(
    log: UnifiedLog, store: RemoteStorageManager, logs: RemotePartitionMetadataStore
) -> list[RemoteLogSegmentMetadata]:
    """Copy all closed segments that are not in the store yet, and apply the records of that."""
    log.maybe_increment_high_watermark(log.log_end_offset)
    partition = TopicIdPartition(log.topic_id, log.topic_partition)
    logs.load(partition)
    remote = logs.known(partition)
    copied = []
    for number, segment in enumerate(log.segments):
        following = log.segments.base_after(number)
        if following is None or (log.tiered_to is not None and following <= log.tiered_to):
            continue
        copied.append(_copy(log, segment, following, store, segment_id=(len(remote) + 1).to_bytes(16, "big")))
        remote.apply(copied[-1])
        log.tiered_to = following
    return copied


def _copy(
    log: UnifiedLog, segment: LogSegment, end: int, store: RemoteStorageManager, *, segment_id: bytes
) -> RemoteLogSegmentMetadata:
    starts = [(epoch, start) for epoch, start in log.leader_epoch_cache.entries() if start < end]
    epochs = tuple(
        (epoch, max(start, segment.base_offset))
        for number, (epoch, start) in enumerate(starts)
        if number + 1 == len(starts) or starts[number + 1][1] > segment.base_offset
    )
    remote = RemoteLogSegmentMetadata(
        TopicIdPartition(log.topic_id, log.topic_partition),
        segment_id,
        segment.base_offset,
        end - 1,
        segment.max_timestamp()[0],
        segment.size,
        epochs,
        RemoteLogSegmentState.COPY_FINISHED,
        broker_id=1,
        event_ms=5,
        has_aborted=segment.indexes.has_aborted,
    )
    disk = log.storage.disk
    for suffix in [LOG, INDEX, TIME_INDEX] + [TXN_INDEX] * segment.indexes.has_aborted:
        file = disk.open(segment.stem + suffix)
        store.put(remote.object_name(suffix), file, file.size())
    store.put_bytes(remote.object_name(SNAPSHOT), disk.read_file(log.snapshots.path(end)))
    store.put_bytes(remote.object_name(EPOCHS), encode_epochs(starts))
    return remote
