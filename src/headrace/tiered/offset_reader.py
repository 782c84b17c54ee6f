"""RemoteLogOffsetReader: finds offsets by time in the remote tier, for ListOffsets.

What is known of the segments tells which of them can hold the record, so most lookups need no store: `find`
and `largest` say None where the local log alone has the answer. Else a thread asks the time index, the offset
index and a piece of the segment, and the future gives the record, or None where it is not in the remote
tier either. Where the tiers overlap the local one is asked, and of a segment whose tail is another lineage's
only what is this log's counts (`metadata_cache`): its largest timestamp may be in that tail.

Threads are few (`remote.log.reader.threads`) and not those of fetches: a store that hangs with lookups keeps
no reader waiting. Who gives a lookup up cancels its future; one that has not begun then never does.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.log.batch_scan import scan_headers
from headrace.log.file_names import LOG
from headrace.log.read import first_record
from headrace.log.unified_log import TimestampAndOffset, UnifiedLog
from headrace.tiered.metadata_cache import ReadableSegments, RemotePartitionMetadataStore
from headrace.tiered.remote_index_cache import RemoteIndexCache
from headrace.tiered.remote_storage import RemoteStorageError, RemoteStorageManager, store_of
from headrace.tiered.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition

T = TypeVar("T")

_PIECE_BYTES: Final = 1 << 20

Found: TypeAlias = asyncio.Future[TimestampAndOffset | None]


class _Part(NamedTuple):
    """What of a segment is the log's, and not in its local part: offsets from `start` up to `end`."""

    segment: RemoteLogSegmentMetadata
    start: int
    end: int


class RemoteLogOffsetReader:
    """A node's lookups by time in its remote store."""

    def __init__(
        self,
        store: RemoteStorageManager,
        indexes: RemoteIndexCache,
        logs: RemotePartitionMetadataStore,
        *,
        loop: asyncio.AbstractEventLoop,
        executor: Executor | None,
        threads: Callable[[], int],
    ) -> None:
        self._store = store
        self._indexes = indexes
        self._logs = logs
        self.jobs: BoundedJobs[TimestampAndOffset | None] = BoundedJobs(loop, executor, threads)
        self._readable = ReadableSegments()

    def find(self, log: UnifiedLog, timestamp: int) -> Found | None:
        """The first record before the local part that is not older than `timestamp`. ApiError while it is not
        known what the remote tier has.
        """
        parts = self._remote_part(log, timestamp)
        return self.jobs.add(partial(self._search_all, parts, timestamp)) if parts else None

    def largest(self, log: UnifiedLog, local_timestamp: int) -> Found | None:
        """The first record before the local part with the log's largest timestamp, of those that are not
        younger than the local part's.
        """
        least = max(local_timestamp, 0)
        parts = self._remote_part(log, least)
        parts.sort(key=lambda each: -each.segment.max_timestamp)
        return self.jobs.add(partial(self._search_largest, parts, least)) if parts else None

    def _remote_part(self, log: UnifiedLog, timestamp: int) -> list[_Part]:
        """Of segments that may have a record as young as this, or younger."""
        start, local_start = log.log_start_offset, log.local_start_offset
        if start >= local_start:
            return []
        remote = self._logs.get(TopicIdPartition(log.topic_id, log.topic_partition))
        if remote is None:
            raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE, "what is in the remote store is not known yet")
        parts = (
            _Part(each, max(start, each.start_offset), min(end, local_start))
            for each, end in zip(
                self._readable.of(log, remote), self._readable.ends(log, remote), strict=True
            )
            if each.max_timestamp >= timestamp and each.start_offset < local_start and end > start
        )
        return [part for part in parts if part.start < part.end]

    # --- in a thread ---

    def _search_all(self, parts: list[_Part], timestamp: int, wanted: Found) -> TimestampAndOffset | None:
        for part in parts:
            if wanted.cancelled():
                break
            found = self._search_one(part, timestamp)
            if found is not None:
                return found
        return None

    def _search_largest(self, parts: list[_Part], least: int, wanted: Found) -> TimestampAndOffset | None:
        """`parts` come by what their segments say, the youngest first; a part may be older than that."""
        best: TimestampAndOffset | None = None
        for part in parts:
            timestamp = part.segment.max_timestamp
            if wanted.cancelled() or (best is not None and timestamp < best.timestamp):
                break
            if best is not None and timestamp == best.timestamp and part.start > best.offset:
                continue
            found = self._search_one(part, timestamp) or self._youngest(part)
            if found is not None and (best is None or _rank(found) > _rank(best)):
                best = found
        return best if best is not None and best.timestamp >= least else None

    def _search_one(self, part: _Part, timestamp: int) -> TimestampAndOffset | None:
        segment, start, end = part
        offset = max(self._indexes.times(segment).lookup(timestamp)[1], start)
        _, position = self._indexes.offsets(segment).lookup(offset)
        file = SegmentRanges(self._store, segment)
        for at, header in scan_headers(file, position, segment.size):
            if header.base_offset >= end:
                return None
            if header.max_timestamp >= timestamp and header.last_offset >= start:
                found = first_record(file.read(at, header.size), header, timestamp, start)
                if found is not None:
                    return found if found.offset < end else None
        return None

    def _youngest(self, part: _Part) -> TimestampAndOffset | None:
        """The first record with the largest timestamp of a part that does not have its segment's."""
        segment, start, end = part
        _, position = self._indexes.offsets(segment).lookup(start)
        file = SegmentRanges(self._store, segment)
        best: TimestampAndOffset | None = None
        for at, header in scan_headers(file, position, segment.size):
            if header.base_offset >= end:
                break
            is_younger = best is None or header.max_timestamp > best.timestamp
            if is_younger and header.record_count and header.last_offset >= start:
                found = first_record(file.read(at, header.size), header, header.max_timestamp, start)
                best = found if found is not None and found.offset < end else best
        return best


def _rank(record: TimestampAndOffset) -> tuple[int, int]:
    """The youngest is the largest, and of equals the first."""
    return record.timestamp, -record.offset


class SegmentRanges:
    """A remote segment as a file to read: ranges of the store, the last one kept."""

    def __init__(self, store: RemoteStorageManager, segment: RemoteLogSegmentMetadata) -> None:
        self._store = store_of(store, segment)
        self.path = segment.object_name(LOG)
        self._size = segment.size
        self._start = 0
        self._piece = b""

    def size(self) -> int:
        return self._size

    def read(self, position: int, count: int) -> bytes:
        end = min(position + count, self._size)
        if not self._start <= position <= end <= self._start + len(self._piece):
            self._start = position
            self._piece = self._store.read(
                self.path, position, min(max(end, position + _PIECE_BYTES), self._size)
            )
            if len(self._piece) < end - position:
                raise RemoteStorageError(f"{self.path} ends at byte {position + len(self._piece)}")
        at = position - self._start
        return self._piece[at : at + end - position]


class BoundedJobs(Generic[T]):
    """Jobs for threads, `at_once()` of them at a time, in the order they came.

    A thread that hangs in a store cannot be stopped, so what matters is how many there are, and that nothing
    waits for one in vain: a job whose future was cancelled before its turn never begins, and is forgotten at
    once.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, executor: Executor | None, at_once: Callable[[], int]
    ) -> None:
        self._loop = loop
        self._executor = executor
        self._at_once = at_once
        self._queue: dict[asyncio.Future[T], Callable[[], T]] = {}
        self._running = 0

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def running(self) -> int:
        return self._running

    def add(self, job: Callable[[asyncio.Future[T]], T]) -> "asyncio.Future[T]":
        """Have a thread do it; it is given its own future, to see whether somebody still waits."""
        result: asyncio.Future[T] = self._loop.create_future()
        self._queue[result] = partial(job, result)
        result.add_done_callback(lambda done: self._queue.pop(done, None))
        self._start()
        return result

    def _start(self) -> None:
        while self._queue and self._running < self._at_once():
            result = next(iter(self._queue))
            job = self._queue.pop(result)
            if result.cancelled():
                continue
            self._running += 1
            self._loop.run_in_executor(self._executor, job).add_done_callback(partial(self._over, result))

    def _over(self, result: asyncio.Future[T], over: asyncio.Future[T]) -> None:
        self._running -= 1
        error = asyncio.CancelledError() if over.cancelled() else over.exception()
        if not result.done():
            if isinstance(error, asyncio.CancelledError):
                result.cancel()
            elif error is not None:
                result.set_exception(error)
            else:
                result.set_result(over.result())
        if not self._loop.is_closed():
            self._start()
