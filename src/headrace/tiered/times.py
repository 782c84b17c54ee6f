"""Finding offsets by time in the remote tier.

What is known of the segments tells which of them can hold the record, so most lookups need no store: `find`
and `largest` say None where the local log alone has the answer. Else a thread asks the time index, the offset
index and a piece of the segment, and the future gives the record, or None where it is not in the remote
tier either. Where the tiers overlap the local one is asked.
"""

import asyncio
from concurrent.futures import Executor
from typing import Final, TypeAlias

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.log.batch_scan import scan_headers
from headrace.log.file_names import LOG
from headrace.log.partition_log import PartitionLog, TimestampOffset
from headrace.log.timestamps import first_record
from headrace.tiered.custom_metadata import store_of
from headrace.tiered.index_cache import IndexCache
from headrace.tiered.readable import ReadableSegments
from headrace.tiered.remote_log import RemoteLogs
from headrace.tiered.remote_segment import RemoteSegment, TopicIdPartition
from headrace.tiered.store import RemoteStore, RemoteStoreError

_PIECE_BYTES: Final = 1 << 20

Found: TypeAlias = asyncio.Future[TimestampOffset | None]


class RemoteTimes:
    """A node's lookups by time in its remote store."""

    def __init__(
        self,
        store: RemoteStore,
        indexes: IndexCache,
        logs: RemoteLogs,
        *,
        loop: asyncio.AbstractEventLoop,
        executor: Executor | None,
    ) -> None:
        self._store = store
        self._indexes = indexes
        self._logs = logs
        self._loop = loop
        self._executor = executor
        self._readable = ReadableSegments()

    def find(self, log: PartitionLog, timestamp: int) -> Found | None:
        """The first record before the local part that is not older than `timestamp`. ApiError while it is not
        known what the remote tier has.
        """
        young_enough = [each for each in self._remote_part(log) if each.max_timestamp >= timestamp]
        return self._search(log, young_enough, timestamp)

    def largest(self, log: PartitionLog, local_timestamp: int) -> Found | None:
        """The first record before the local part with the log's largest timestamp, of those that are not
        younger than the local part's.
        """
        segments = self._remote_part(log)
        timestamp = max((each.max_timestamp for each in segments), default=-1)
        if timestamp < max(local_timestamp, 0):
            return None
        return self._search(log, [each for each in segments if each.max_timestamp == timestamp], timestamp)

    def _remote_part(self, log: PartitionLog) -> list[RemoteSegment]:
        start, local_start = log.log_start_offset, log.local_start_offset
        if start >= local_start:
            return []
        remote = self._logs.get(TopicIdPartition(log.topic_id, log.topic_partition))
        if remote is None:
            raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE, "what is in the remote store is not known yet")
        readable = self._readable.of(log, remote)
        return [each for each in readable if each.start_offset < local_start and each.end_offset >= start]

    def _search(self, log: PartitionLog, segments: list[RemoteSegment], timestamp: int) -> Found | None:
        if not segments:
            return None
        return self._loop.run_in_executor(
            self._executor,
            self._search_all,
            segments,
            timestamp,
            log.log_start_offset,
            log.local_start_offset,
        )

    def _search_all(
        self, segments: list[RemoteSegment], timestamp: int, start: int, local_start: int
    ) -> TimestampOffset | None:
        """In a thread."""
        for segment in segments:
            found = self._search_one(segment, timestamp, start)
            if found is not None:
                return found if found.offset < local_start else None
        return None

    def _search_one(self, segment: RemoteSegment, timestamp: int, start: int) -> TimestampOffset | None:
        offset = max(self._indexes.times(segment).lookup(timestamp)[1], start)
        _, position = self._indexes.offsets(segment).lookup(offset)
        file = SegmentRanges(self._store, segment)
        for at, header in scan_headers(file, position, segment.size):
            if header.max_timestamp >= timestamp and header.last_offset >= start:
                found = first_record(file.read(at, header.size), header, timestamp, start)
                if found is not None:
                    return found
        return None


class SegmentRanges:
    """A remote segment as a file to read: ranges of the store, the last one kept."""

    def __init__(self, store: RemoteStore, segment: RemoteSegment) -> None:
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
                raise RemoteStoreError(f"{self.path} ends at byte {position + len(self._piece)}")
        at = position - self._start
        return self._piece[at : at + end - position]
