"""Reading what is no longer on this disk, without anybody waiting for it.

`read` gives at once what is in memory. What is not is fetched by a thread, a window at a time, and `read`
says None: `on_arrival` is called when there is something to try again for. So a Fetch is answered with what
else it has, or waits as it does for new records.

A reader that goes on where it ended has the next windows fetched before it asks, also those of the next
segment, until the part of the log begins that lies on this disk. Reads are bounded in number
(`remote.log.reader.threads` at once, `remote.log.reader.max.pending.tasks` waiting: beyond that the asking
Fetch waits and tries again), in memory (`window_memory`) and in bytes per second
(`remote.log.manager.fetch.max.bytes.per.second`); what somebody waits for goes before what is read ahead.

A failure is told to those who wait for that window, once; until a pause is over who asks again just waits.
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
from headrace.log.partition_log import PartitionLog
from headrace.tiered.index_cache import IndexCache
from headrace.tiered.pace import Pace
from headrace.tiered.readable import ReadableSegments
from headrace.tiered.remote_log import RemoteLog, RemoteLogs, lineage_end
from headrace.tiered.remote_segment import RemoteSegment, TopicIdPartition
from headrace.tiered.store import RemoteStore, RemoteStoreError, window_bytes_max
from headrace.tiered.window_memory import WindowMemory
from headrace.tiered.windows import EVERYTHING, Aborted, Window, find_aborted, load_window, read_window

logger = logging.getLogger(__name__)

FIRST_WINDOW_BYTES: Final = 1 << 20
"""For who has just come: what one Fetch takes, by default. Who goes on gets more at a time."""

PACE_PAUSE_S: Final = 1.0
"""How long to wait for the pace at most before asking again: its rate may have been raised."""

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


class _Wish(NamedTuple):
    """A window to be read: from `offset` on, which is at `position` where that is known."""

    segment: RemoteSegment
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
        "waiting",
        "window",
        "wish",
    )

    def __init__(self, wish: _Wish, window: Window | None, *, is_ahead: bool, is_sequential: bool) -> None:
        self.wish = wish
        self.window = window
        self.is_ahead = is_ahead
        self.is_sequential = is_sequential
        self.buffer: bytearray | None = None
        self.charged = 0  # bytes that the pace was told of
        self.waiting: set[TopicPartition] = set()
        # Where aborted transactions are to be looked for; None: nobody has asked for them.
        self.aborted_in: list[RemoteSegment] | None = None
        self.known_to = 0


class RemoteReader:
    """A node's reads from its remote store."""

    def __init__(
        self,
        store: RemoteStore,
        indexes: IndexCache,
        logs: RemoteLogs,
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
        self._pace = Pace(limits.bytes_per_second)
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

    def close(self) -> None:
        """Read nothing more; what is on its way is dropped when it comes."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    # --- reading ---

    def read(
        self,
        log: PartitionLog,
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
            segment = remote.find(log.epochs, offset)
            if segment is None:
                raise ApiError(
                    ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} of {log.topic_partition} is in no tier"
                )
            window = self._memory.get(segment.segment_id, offset)
            if window is None or (committed and self._lacks_aborted(window, log)):
                self._want(_Wish(segment, offset, None), window, remote, log, committed, ahead=False)
                return None
            bound = min(max_offset, lineage_end(log.epochs, segment))
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
        self, window: Window, remote: RemoteLog, log: PartitionLog, offset: int, upper: int, committed: bool
    ) -> None:
        now, memory, partition = self._loop.time(), self._memory, log.topic_partition
        memory.touch(window, upper, now)
        is_sequential = memory.goes_on(partition, offset)
        memory.note_read(partition, offset, upper, now)
        if is_sequential:
            self._read_ahead(window, remote, log, committed)

    def _read_ahead(self, window: Window, remote: RemoteLog, log: PartitionLog, committed: bool) -> None:
        current: Window | None = window
        for _ in range(self._memory.windows_ahead()):
            wish = None if current is None else self._next_wish(current, remote, log)
            if wish is None or wish.key in self._jobs:
                return
            current = self._memory.get(*wish.key)
            if current is None or (committed and self._lacks_aborted(current, log)):
                self._want(wish, current, remote, log, committed, ahead=True)

    def _next_wish(self, window: Window, remote: RemoteLog, log: PartitionLog) -> _Wish | None:
        """What follows a window; None where that is on this disk."""
        segment, offset = window.segment, window.end_offset
        bound = lineage_end(log.epochs, segment)
        if not window.is_last and offset < bound:
            position: int | None = window.next_position
        else:
            following = remote.after(log.epochs, segment)
            if following is None:
                return None
            segment, offset = following, max(min(offset, bound), following.start_offset)
            position = 0 if offset == segment.start_offset else None
        return _Wish(segment, offset, position) if offset < log.local_start_offset else None

    # --- aborted transactions ---

    def _lacks_aborted(self, window: Window, log: PartitionLog) -> bool:
        """Whether it is not known which transactions in the window were aborted: of markers in segments that
        were copied since, and have left this disk, nothing is known.
        """
        aborted = window.aborted
        return aborted is None or aborted.known_to < log.local_start_offset

    def _aborted(self, window: Window, log: PartitionLog, first: int, upto: int) -> list[tuple[int, int]]:
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
        self, segment: RemoteSegment, remote: RemoteLog, log: PartitionLog
    ) -> tuple[list[RemoteSegment], int]:
        """Segments from this one on that have aborted transactions, and where the last readable one ends."""
        readable = self._readable.of(log, remote)
        having = [each for each in readable if each.has_aborted and each.end_offset >= segment.start_offset]
        return having, max(each.end_offset + 1 for each in readable)

    # --- jobs ---

    def _want(
        self,
        wish: _Wish,
        window: Window | None,
        remote: RemoteLog,
        log: PartitionLog,
        committed: bool,
        *,
        ahead: bool,
    ) -> None:
        """Have a window read, unless it is on its way."""
        failure = self._failures.get(wish.key)
        if failure is not None and not ahead:
            raise failure
        paused = self._paused.get(wish.segment.segment_id)
        if paused is not None:
            if not ahead:
                paused.add(log.topic_partition)
            return
        job = self._jobs.get(wish.key)
        if job is None:
            if len(self._urgent) + len(self._ahead) >= self._limits.pending_max():
                if not ahead:
                    self._starved.add(log.topic_partition)
                return
            is_sequential = ahead or self._memory.goes_on(log.topic_partition, wish.offset)
            job = self._jobs[wish.key] = _Job(wish, window, is_ahead=ahead, is_sequential=is_sequential)
            (self._ahead if ahead else self._urgent).append(job)
            if committed:
                job.aborted_in, job.known_to = self._aborted_from(wish.segment, remote, log)
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
            wait_s = self._pace.wait_s(now)
            if wait_s > 0:
                if self._timer is None:
                    self._timer = self._loop.call_later(min(wait_s, PACE_PAUSE_S), self._time_is_up)
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
        job.charged = min(size, job.wish.segment.size - (job.wish.position or 0))
        self._pace.take(job.charged, now)
        return True

    def _settle(self, job: _Job, window: Window, now: float) -> None:
        """Where in its segment the window begins, and how large a batch is, only reading has told."""
        read = len(window.data)
        if window.buffer is None:  # the one batch that is larger than the buffer, which was filled before
            read += len(job.buffer or b"")
        self._pace.take(read - job.charged, now)

    def _time_is_up(self) -> None:
        self._timer = None
        self._start_jobs()

    def _give_up(self, job: _Job) -> None:
        """There is no room to read ahead."""
        del self._jobs[job.wish.key]

    def _run(self, job: _Job) -> tuple[Window, Aborted | None]:
        """In a thread."""
        wish, window, buffer = job.wish, job.window, job.buffer
        if window is None:
            assert buffer is not None
            if wish.position is None:
                window = load_window(self._store, self._indexes, wish.segment, wish.offset, buffer)
            else:
                window = read_window(
                    self._store, wish.segment, position=wish.position, first_offset=wish.offset, buffer=buffer
                )
        if job.aborted_in is None:
            return window, None
        return window, find_aborted(self._indexes, job.aborted_in, window, job.known_to)

    def _over(self, job: _Job, over: "asyncio.Future[tuple[Window, Aborted | None]]") -> None:
        self._running -= 1
        del self._jobs[job.wish.key]
        error = asyncio.CancelledError() if over.cancelled() else over.exception()
        if self._is_closed:
            return
        if error is not None:
            if job.buffer is not None:
                self._memory.release(job.buffer)
            self._failed(job, error)
        else:
            window, aborted = over.result()
            if aborted is not None:
                window.aborted = aborted
            if job.buffer is not None:
                now = self._loop.time()
                self._settle(job, window, now)
                self._memory.add(window, job.buffer, now)
            self._failing.discard(job.wish.segment.segment_id)
        self._tell(job.waiting)
        self._start_jobs()
        starved, self._starved = self._starved, set()
        self._tell(starved)

    def _failed(self, job: _Job, error: BaseException) -> None:
        segment = job.wish.segment
        if segment.segment_id not in self._failing:
            self._failing.add(segment.segment_id)
            is_expected = isinstance(error, RemoteStoreError | InvalidBytesError | OSError)
            logger.error(
                "%s cannot be read from the remote store: %s",
                segment,
                error,
                exc_info=None if is_expected else error,
            )
        key = job.wish.key
        self._failures[key] = ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"{segment} cannot be read from the remote store: {error}"
        )
        if segment.segment_id not in self._paused:
            self._paused[segment.segment_id] = set()
            self._loop.call_later(RETRY_PAUSE_S, self._pause_is_over, segment.segment_id)
        # Who waits now is tried within the next turn of the loop, and hears of it; who comes later waits.
        self._loop.call_soon(lambda: self._loop.call_soon(self._failures.pop, key, None))

    def _pause_is_over(self, segment_id: bytes) -> None:
        self._tell(self._paused.pop(segment_id))

    def _tell(self, partitions: set[TopicPartition]) -> None:
        if not self._is_closed:
            for partition in sorted(partitions):
                self._on_arrival(partition)
