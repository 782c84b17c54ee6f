"""Compaction of a node's logs, beside everything else the node does.

Rounds (`log.cleaner`) run one log each, as many at once as `log.cleaner.threads` says. What blocks goes to
threads piece by piece, and the kernels there release the GIL; names and memory change on the loop between two
pieces. All rounds share `log.cleaner.dedupe.buffer.size` for their keys and `log.cleaner.io.buffer.size` for
reading and writing, also with the one that may be under way in a remote store (`shares`), and
`log.cleaner.io.max.bytes.per.second`. Settings are read when a round begins, so
changes hold from the next one on.

Logs have their turn in the order of a queue (`cleaning_queue`), which is filled every
`log.cleaner.backoff.ms`, and when it is empty and a round ends. A round ends early where its log goes, where
its topic shall not be compacted any more, and where its replica begins to move to another folder: what is
copied has deleted keys until their delete markers are copied, too, so these must stay until it is over.

A log that cannot be cleaned, because a batch in it is damaged, is left alone until the next start, and said
so (`uncleanable_logs`); a full disk ends a round, and the log's turn comes again later. A disk that fails, in
a round or while logs are looked at, takes its folder offline; the others go on.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Final

from headrace.base.errors import ApiError, InvalidBytesError
from headrace.base.ids import TopicPartition
from headrace.log.cleaner import PIECE_BYTES, Cleaned, Limits, Round, clean
from headrace.log.cleaner_picking import Cleanable, may_be_cleaned
from headrace.log.faults import FULL
from headrace.log.file_names import CLEANER_OFFSETS
from headrace.log.log_moves import home_of_copy
from headrace.log.log_store import LogStore
from headrace.log.partition_log import PartitionLog
from headrace.records.cleaning import KeyTable
from headrace.replication.cleaning_queue import CleaningQueue
from headrace.replication.throttles import Allowance
from headrace.replication.uncleanable_logs import UncleanableLogs
from headrace.settings.broker_config import BrokerConfig

logger = logging.getLogger(__name__)

# As Kafka's: an array there has no more.
TABLE_BYTES_MAX: Final = (1 << 31) - 1
# Of that memory, what is remembered of batches: 4 MiB of the default 128, with room for 75,000 runs.
RUNS_SHARE: Final = 32
# And of which records are superseded: another 4 MiB, with room for 33 million offsets. Where there are more,
# keys are hashed again.
NOTES_SHARE: Final = 32
# Above this a bound on bytes is none.
UNBOUNDED_BYTES_PER_S: Final = 1e12
PIECE_BYTES_MIN: Final = 64 << 10
PAUSE_S: Final = 0.05
"""While an allowance is waited for."""


def shares(config: BrokerConfig, threads: int) -> int:
    """How many rounds share the memory for compaction: those here, and one in the remote store if there is
    one (`tier_compaction`).
    """
    return threads + int(config.bool("remote.log.storage.system.enable"))


class Cleaning:
    """The rounds under way."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        store: LogStore,
        config: BrokerConfig,
        rng: random.Random,
        on_cleaned: Callable[[Cleaned], None] = lambda done: None,
    ) -> None:
        self._loop = loop
        self._store = store
        self._config = config
        self._rng = rng
        self._on_cleaned = on_cleaned
        self._allowance = Allowance(self._bytes_per_second)
        self._rounds: dict[PartitionLog, asyncio.Task[None]] = {}
        self._uncleanable = UncleanableLogs(loop, store)
        self._resting: set[PartitionLog] = set()
        self._queue = CleaningQueue(
            loop=loop,
            store=store,
            may_begin=self._may_begin,
            on_fault=self._cannot_be_looked_at,
            on_filled=self._begin_rounds,
        )
        self._telling: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stopping = False

    @property
    def uncleanable(self) -> dict[TopicPartition, str]:
        """Logs that are left alone, and why."""
        return self._uncleanable.reasons

    def start(self) -> None:
        self._uncleanable.start()
        if self._config.bool("log.cleaner.enable"):
            self._wait()

    async def stop(self) -> None:
        """Give up what is under way, and return once no thread works on it any more."""
        self.abandon()
        under_way = [*self._rounds.values(), *([self._telling] if self._telling is not None else [])]
        if under_way:
            await asyncio.wait(under_way)

    def abandon(self) -> None:
        """Begin nothing more, and end rounds where they are."""
        self._stopping = True
        self._queue.stop()
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        backoff_s = max(self._config.int("log.cleaner.backoff.ms"), 1) / 1000
        self._timer = self._loop.call_later(backoff_s, self._look_again)

    def _look_again(self) -> None:
        self._wait()  # first: whatever goes wrong now, there is a next time
        self._resting.clear()
        if self._uncleanable.forget_gone():
            self._tell_soon()
        self._queue.fill()

    def _begin_rounds(self) -> None:
        threads = self._threads
        while len(self._rounds) < threads and not self._stopping:
            found = self._queue.take()
            if found is None:
                return
            self._rounds[found.log] = self._loop.create_task(self._run(found, threads))

    @property
    def _threads(self) -> int:
        return self._config.int("log.cleaner.threads")

    def _may_begin(self, log: PartitionLog) -> bool:
        left_out = log in self._rounds or log in self._uncleanable.logs or log in self._resting
        return not left_out and self._may_go_on(log)

    def _may_go_on(self, log: PartitionLog) -> bool:
        """Whether a round on the log may change it. Copies that an earlier process began count before anybody
        goes on with them."""
        if self._stopping or not may_be_cleaned(log):
            return False
        return home_of_copy(self._store, log.topic_partition) is None

    def _cannot_be_looked_at(self, log: PartitionLog, error: Exception) -> None:
        self._failed(log, error)
        self._tell_soon()

    def _tell_soon(self) -> None:
        if self._telling is None or self._telling.done():
            self._telling = self._loop.create_task(self._uncleanable.tell())

    # -- one round -------------------------------------------------------------------------------------------

    async def _run(self, found: Cleanable, threads: int) -> None:
        log, began_s = found.log, self._loop.time()
        try:
            done = await self._clean(found, threads)
            if done is not None:
                await self._checkpoint(log)
                _tell(done, found, self._loop.time() - began_s)
                self._on_cleaned(done)
        except Exception as error:
            self._failed(log, error)
        try:
            await self._uncleanable.tell()
        finally:
            del self._rounds[log]
        self._begin_rounds()
        if len(self._rounds) < self._threads and not self._stopping:
            self._queue.fill()

    async def _clean(self, found: Cleanable, threads: int) -> Cleaned | None:
        """None where the round was given up."""
        parts = shares(self._config, threads)
        memory_bytes = min(self._config.int("log.cleaner.dedupe.buffer.size") // parts, TABLE_BYTES_MAX)
        runs_bytes, notes_bytes = memory_bytes // RUNS_SHARE, memory_bytes // NOTES_SHARE
        table = KeyTable(
            memory_bytes - runs_bytes - notes_bytes,
            self._config.float("log.cleaner.io.buffer.load.factor"),
            (self._rng.getrandbits(64), self._rng.getrandbits(64)),
            runs_bytes=runs_bytes,
            notes_bytes=notes_bytes,
        )
        limits = Limits(
            window_bytes=self._config.int("log.cleaner.io.buffer.size") // parts,
            piece_bytes=int(max(PIECE_BYTES_MIN, min(PIECE_BYTES, self._bytes_per_second() / 8))),
        )
        work = clean(found, table, limits, now_ms=self._store.clock.now_ms())
        try:
            return await self._do(work, found.log)
        finally:
            work.close()
            table.drop()

    async def _do(self, work: Round, log: PartitionLog) -> Cleaned | None:
        try:
            piece = next(work)
            while self._may_go_on(log):
                try:
                    moved = await self._loop.run_in_executor(None, piece)
                except (OSError, InvalidBytesError) as error:
                    piece = work.throw(error)
                else:
                    await self._hold_back(moved, log)
                    if self._may_go_on(log):
                        piece = work.send(moved)
        except StopIteration as stop:
            done: Cleaned = stop.value
            return done if done.is_whole else None
        return None

    async def _hold_back(self, moved: int, log: PartitionLog) -> None:
        if self._bytes_per_second() >= UNBOUNDED_BYTES_PER_S:
            return
        self._allowance.take(moved)
        while self._allowance.is_used_up(int(self._loop.time() * 1000)) and self._may_go_on(log):
            await asyncio.sleep(PAUSE_S)

    def _bytes_per_second(self) -> float:
        return self._config.float("log.cleaner.io.max.bytes.per.second")

    async def _checkpoint(self, log: PartitionLog) -> None:
        folder = self._store.folder_of(log.topic_partition)
        for write in self._store.begin_checkpoint((CLEANER_OFFSETS,)):
            if write.folder is folder:
                await self._loop.run_in_executor(None, write.write)

    def _failed(self, log: PartitionLog, error: Exception) -> None:
        """What becomes of a log that could not be looked at, or cleaned."""
        is_ours = not isinstance(error, (ApiError, InvalidBytesError, OSError))
        if is_ours:
            logger.error("compaction of %s", log.topic_partition, exc_info=error)
        if log.failure is not None:
            return  # deleted, moved, or its folder is offline already
        if not isinstance(error, OSError):
            # A fault of ours, too, must not be met again and again, nor keep other logs from their turn.
            self._uncleanable.add(log, repr(error) if is_ours else str(error))
        elif error.errno in FULL:
            self._resting.add(log)
            logger.warning("there is no room to compact %s: %s", log.topic_partition, error)
        else:
            folder = self._store.folder_of(log.topic_partition)
            if folder is not None:
                self._store.fail_folder(folder, error)


def _tell(done: Cleaned, found: Cleanable, seconds: float) -> None:
    logger.info(
        "compacted %s up to offset %d in %.1f s: %d segments of %.1f MB are %d of %.1f MB, "
        "%d records are %d; %.1f MB of it were dirty, with %d keys",
        done.log.topic_partition,
        done.end_offset,
        seconds,
        done.segments_before,
        done.bytes_before / 1e6,
        done.segments_after,
        done.bytes_after / 1e6,
        done.records_read,
        done.records_kept,
        found.dirty_bytes / 1e6,
        done.keys,
    )
