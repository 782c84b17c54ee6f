"""RemoteLogReader: reads what is no longer on this disk, without anybody waiting for it.

`read` gives at once what is in memory. What is not is fetched by a thread, a window at a time, and `read`
says None: `on_arrival` is called when there is something to try again for. So a Fetch is answered with what
else it has, or waits as it does for new records.

A reader that goes on where it ended has the next windows fetched before it asks, also those of the next
segment, until the part of the log begins that lies on this disk. Reads are bounded in number
(`remote.log.reader.threads` at once, `remote.log.reader.max.pending.tasks` waiting: beyond that the asking
Fetch waits and tries again), in memory (`window_memory`) and in bytes per second
(`remote.log.manager.fetch.max.bytes.per.second`); what somebody waits for goes before what is read ahead.

A failure is told to those who wait for that window, once; until a pause is over, callers that ask again wait.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Final, NamedTuple

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.base.ids import TopicPartition
from headrace.log.unified_log import UnifiedLog
from headrace.tiered.metadata_cache import (
    ReadableSegments,
    RemoteLogMetadataCache,
    RemotePartitionMetadataStore,
    lineage_end,
)
from headrace.tiered.quota_manager import RLMQuotaManager
from headrace.tiered.remote_index_cache import RemoteIndexCache
from headrace.tiered.remote_storage import RemoteStorageError, RemoteStorageManager, window_bytes_max
from headrace.tiered.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition
from headrace.tiered.window_memory import WindowMemory
from headrace.tiered.windows import (
    EVERYTHING,
    AbortedTransactions,
    SegmentWindow,
    find_aborted,
    load_window,
    read_window,
)

logger = logging.getLogger(__name__)

FIRST_WINDOW_BYTES: Final = 1 << 20
"""For who has just come: what one Fetch takes, by default. Who goes on gets more at a time."""

QUOTA_PAUSE_S: Final = 1.0
"""How long to wait for the quota at most before asking again: it may have been raised."""

RETRY_PAUSE_S: Final = 0.25
"""How long a segment that could not be read is left alone: clients ask again at once."""


class RemoteWindow(NamedTuple):
    """Whole batches; every offset in them lies below `upper_offset`. No records: go on reading there.
    `aborted` are (producer id, first offset), for who asked for committed records.
    """

    records: memoryview
    upper_offset: int
    aborted: list[tuple[int, int]]


class ReaderLimits(NamedTuple):
    """Settings, asked for anew each time: most can change while a node runs."""

    threads: Callable[[], int]
    pending_max: Callable[[], int]
    bytes_per_second: Callable[[], int]


class _WindowRequest(NamedTuple):
    """A window to be read: from `offset` on, which is at `position` where that is known."""

    segment: RemoteLogSegmentMetadata
    offset: int
    position: int | None

    @property
    def key(self) -> tuple[bytes, int]:
        return self.segment.segment_id, self.offset


class _Job:
    """A window on its way, or what a window lacks."""

    __slots__ = (
        "aborted_in",
        "buffer",
        "charged",
        "is_ahead",
        "is_sequential",
        "known_to",
        "request",
        "waiting",
        "window",
    )

    def __init__(
        self, request: _WindowRequest, window: SegmentWindow | None, *, is_ahead: bool, is_sequential: bool
    ) -> None:
        self.request = request
        self.window = window
        self.is_ahead = is_ahead
        self.is_sequential = is_sequential
        self.buffer: bytearray | None = None
        self.charged = 0  # bytes that the quota was told of
        self.waiting: set[TopicPartition] = set()
        # Where aborted transactions are to be looked for; None: nobody has asked for them.
        self.aborted_in: list[RemoteLogSegmentMetadata] | None = None
        self.known_to = 0


class RemoteLogReader:
    """A node's reads from its remote store."""

    def __init__(
        self,
        store: RemoteStorageManager,
        indexes: RemoteIndexCache,
        logs: RemotePartitionMetadataStore,
        *,
        loop: asyncio.AbstractEventLoop,
        executor: Executor | None,
        on_arrival: Callable[[TopicPartition], None],
        limits: ReaderLimits,
        memory: WindowMemory | None = None,
    ) -> None:
        self._store = store
        self._indexes = indexes
        self._logs = logs
        self._loop = loop
        self._executor = executor
        self._on_arrival = on_arrival
        self._limits = limits
        self._quota = RLMQuotaManager(limits.bytes_per_second)
        self._memory = WindowMemory(window_bytes_max=window_bytes_max(store)) if memory is None else memory
        self._jobs: dict[tuple[bytes, int], _Job] = {}
        self._urgent: deque[_Job] = deque()
        self._ahead: deque[_Job] = deque()
        self._running = 0
        self._starved: set[TopicPartition] = set()
        self._failures: dict[tuple[bytes, int], ApiError] = {}
        self._paused: dict[bytes, set[TopicPartition]] = {}
        self._failing: set[bytes] = set()
        self._readable = ReadableSegments()
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self.requests = self.bytes = self.errors = 0  # of the store, so far

    def close(self) -> None:
        """Read nothing more; what is on its way is dropped when it comes."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    # --- reading ---

    def read(
        self,
        log: UnifiedLog,
        offset: int,
        *,
        max_bytes: int,
        max_offset: int,
        committed: bool = False,
        at_least_one: bool = True,
    ) -> RemoteWindow | None:
        """Batches from `offset` on, below `max_offset`, of a log whose local part starts behind it. None:
        they are on their way. ApiError where they cannot be had.
        """
        partition = TopicIdPartition(log.topic_id, log.topic_partition)
        remote = self._logs.get(partition)
        if remote is None:
            return None  # what is in the store is still being found out
        start = offset
        while offset < min(log.local_start_offset, max_offset):
            segment = remote.find(log.leader_epoch_cache, offset)
            if segment is None:
                raise ApiError(
                    ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} of {log.topic_partition} is in no tier"
                )
            window = self._memory.get(segment.segment_id, offset)
            if window is None or (committed and self._lacks_aborted(window, log)):
                self._want(_WindowRequest(segment, offset, None), window, remote, log, committed, ahead=False)
                return None
            bound = min(max_offset, lineage_end(log.leader_epoch_cache, segment))
            records, upper = window.cut(
                offset, max_bytes=max_bytes, max_offset=bound, at_least_one=at_least_one
            )
            if records or upper == offset:
                self._note_use(window, remote, log, start, upper, committed)
                aborted = self._aborted(window, log, start, upper) if committed else []
                return RemoteWindow(records, upper, aborted)
            offset = upper
        return RemoteWindow(memoryview(b""), offset, [])

    def _note_use(
        self,
        window: SegmentWindow,
        remote: RemoteLogMetadataCache,
        log: UnifiedLog,
        offset: int,
        upper: int,
        committed: bool,
    ) -> None:
        now, memory, partition = self._loop.time(), self._memory, log.topic_partition
        memory.touch(window, upper, now)
        is_sequential = memory.goes_on(partition, offset)
        memory.note_read(partition, offset, upper, now)
        if is_sequential:
            self._read_ahead(window, remote, log, committed)

    def _read_ahead(
        self, window: SegmentWindow, remote: RemoteLogMetadataCache, log: UnifiedLog, committed: bool
    ) -> None:
        current: SegmentWindow | None = window
        for _ in range(self._memory.windows_ahead()):
            request = None if current is None else self._next_request(current, remote, log)
            if request is None or request.key in self._jobs:
                return
            current = self._memory.get(*request.key)
            if current is None or (committed and self._lacks_aborted(current, log)):
                self._want(request, current, remote, log, committed, ahead=True)

    def _next_request(
        self, window: SegmentWindow, remote: RemoteLogMetadataCache, log: UnifiedLog
    ) -> _WindowRequest | None:
        """What follows a window; None where that is on this disk."""
        segment, offset = window.segment, window.end_offset
        bound = lineage_end(log.leader_epoch_cache, segment)
        if not window.is_last and offset < bound:
            position: int | None = window.next_position
        else:
            following = remote.after(log.leader_epoch_cache, segment)
            if following is None:
                return None
            segment, offset = following, max(min(offset, bound), following.start_offset)
            position = 0 if offset == segment.start_offset else None
        return _WindowRequest(segment, offset, position) if offset < log.local_start_offset else None

    # --- aborted transactions ---

    def _lacks_aborted(self, window: SegmentWindow, log: UnifiedLog) -> bool:
        """Whether it is not known which transactions in the window were aborted: of markers in segments that
        were copied since, and have left this disk, nothing is known.
        """
        aborted = window.aborted
        return aborted is None or aborted.known_to < log.local_start_offset

    def _aborted(
        self, window: SegmentWindow, log: UnifiedLog, first: int, upto: int
    ) -> list[tuple[int, int]]:
        assert window.aborted is not None
        found = [
            (txn.producer_id, txn.first_offset)
            for txn in window.aborted.transactions
            if txn.last_offset >= first and txn.first_offset < upto
        ]
        if window.aborted.known_to < EVERYTHING:
            known = set(found)
            found += [each for each in log.aborted_transactions(first, upto) if each not in known]
        return found

    def _aborted_from(
        self, segment: RemoteLogSegmentMetadata, remote: RemoteLogMetadataCache, log: UnifiedLog
    ) -> tuple[list[RemoteLogSegmentMetadata], int]:
        """Segments from this one on that have aborted transactions, and where the last readable one ends."""
        readable = self._readable.of(log, remote)
        having = [each for each in readable if each.has_aborted and each.end_offset >= segment.start_offset]
        return having, max(each.end_offset + 1 for each in readable)

    # --- jobs ---

    def _want(
        self,
        request: _WindowRequest,
        window: SegmentWindow | None,
        remote: RemoteLogMetadataCache,
        log: UnifiedLog,
        committed: bool,
        *,
        ahead: bool,
    ) -> None:
        """Have a window read, unless it is on its way."""
        failure = self._failures.get(request.key)
        if failure is not None and not ahead:
            raise failure
        paused = self._paused.get(request.segment.segment_id)
        if paused is not None:
            if not ahead:
                paused.add(log.topic_partition)
            return
        job = self._jobs.get(request.key)
        if job is None:
            if len(self._urgent) + len(self._ahead) >= self._limits.pending_max():
                if not ahead:
                    self._starved.add(log.topic_partition)
                return
            is_sequential = ahead or self._memory.goes_on(log.topic_partition, request.offset)
            job = self._jobs[request.key] = _Job(request, window, is_ahead=ahead, is_sequential=is_sequential)
            (self._ahead if ahead else self._urgent).append(job)
            if committed:
                job.aborted_in, job.known_to = self._aborted_from(request.segment, remote, log)
        elif job.is_ahead and not ahead and job in self._ahead:
            self._ahead.remove(job)
            self._urgent.append(job)
            job.is_ahead = False
        if not ahead:
            job.waiting.add(log.topic_partition)
        self._start_jobs()

    def _start_jobs(self) -> None:
        while (
            (self._urgent or self._ahead) and self._running < self._limits.threads() and not self._is_closed
        ):
            now = self._loop.time()
            wait_s = self._quota.wait_s(now)
            if wait_s > 0:
                if self._timer is None:
                    self._timer = self._loop.call_later(min(wait_s, QUOTA_PAUSE_S), self._time_is_up)
                return
            queue = self._urgent or self._ahead
            job = queue[0]
            if job.window is None and not self._make_room(job, now):
                if job.is_ahead:
                    self._give_up(queue.popleft())
                    continue
                return  # until one of those that run is over
            queue.popleft()
            self._running += 1
            done = self._loop.run_in_executor(self._executor, self._run, job)
            done.add_done_callback(partial(self._over, job))

    def _make_room(self, job: _Job, now: float) -> bool:
        """Whether there is memory for a window to be read into."""
        size = self._memory.window_bytes()
        if not job.is_sequential:
            size = min(size, FIRST_WINDOW_BYTES)
        if not self._memory.reserve(size, now, ahead=job.is_ahead):
            return False
        job.buffer = self._memory.take_buffer(size)
        job.charged = min(size, job.request.segment.size - (job.request.position or 0))
        self._quota.take(job.charged, now)
        return True

    def _correct_quota(self, job: _Job, window: SegmentWindow, now: float) -> None:
        """Where in its segment the window begins, and how large a batch is, only reading has told."""
        read = len(window.data)
        if window.buffer is None:  # the one batch that is larger than the buffer, which was filled before
            read += len(job.buffer or b"")
        self._quota.take(read - job.charged, now)

    def _time_is_up(self) -> None:
        self._timer = None
        self._start_jobs()

    def _give_up(self, job: _Job) -> None:
        """There is no room to read ahead."""
        del self._jobs[job.request.key]

    def _run(self, job: _Job) -> tuple[SegmentWindow, AbortedTransactions | None]:
        """In a thread."""
        request, window, buffer = job.request, job.window, job.buffer
        if window is None:
            assert buffer is not None
            if request.position is None:
                window = load_window(self._store, self._indexes, request.segment, request.offset, buffer)
            else:
                window = read_window(
                    self._store,
                    request.segment,
                    position=request.position,
                    first_offset=request.offset,
                    buffer=buffer,
                )
        if job.aborted_in is None:
            return window, None
        return window, find_aborted(self._indexes, job.aborted_in, window, job.known_to)

    def _over(
        self, job: _Job, over: "asyncio.Future[tuple[SegmentWindow, AbortedTransactions | None]]"
    ) -> None:
        self._running -= 1
        self.requests += 1
        del self._jobs[job.request.key]
        error = asyncio.CancelledError() if over.cancelled() else over.exception()
        if self._is_closed:
            return
        if error is not None:
            if job.buffer is not None:
                self._memory.release(job.buffer)
            self._failed(job, error)
        else:
            window, aborted = over.result()
            self.bytes += len(window.data)
            if aborted is not None:
                window.aborted = aborted
            if job.buffer is not None:
                now = self._loop.time()
                self._correct_quota(job, window, now)
                self._memory.add(window, job.buffer, now)
            self._failing.discard(job.request.segment.segment_id)
        self._notify(job.waiting)
        self._start_jobs()
        starved, self._starved = self._starved, set()
        self._notify(starved)

    def _failed(self, job: _Job, error: BaseException) -> None:
        self.errors += 1
        segment = job.request.segment
        if segment.segment_id not in self._failing:
            self._failing.add(segment.segment_id)
            is_expected = isinstance(error, RemoteStorageError | InvalidBytesError | OSError)
            logger.error(
                "%s cannot be read from the remote store: %s",
                segment,
                error,
                exc_info=None if is_expected else error,
            )
        key = job.request.key
        self._failures[key] = ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"{segment} cannot be read from the remote store: {error}"
        )
        if segment.segment_id not in self._paused:
            self._paused[segment.segment_id] = set()
            self._loop.call_later(RETRY_PAUSE_S, self._pause_is_over, segment.segment_id)
        # Who waits now is tried within the next turn of the loop, and hears of it; who comes later waits.
        self._loop.call_soon(lambda: self._loop.call_soon(self._failures.pop, key, None))

    def _pause_is_over(self, segment_id: bytes) -> None:
        self._notify(self._paused.pop(segment_id))

    def _notify(self, partitions: set[TopicPartition]) -> None:
        if not self._is_closed:
            for partition in sorted(partitions):
                self._on_arrival(partition)
