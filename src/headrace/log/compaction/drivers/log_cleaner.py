"""The log cleaner: compacts the node's logs, beside everything else the node does.

A round (`Cleaner`) goes over one log; there are as many at once as `log.cleaner.threads` says. What blocks
goes to threads piece by piece, and the kernels there release the GIL; names and memory change on the loop
between two pieces. All rounds share `log.cleaner.dedupe.buffer.size` for their keys and
`log.cleaner.io.buffer.size` for reading and writing, also with the one that may be under way in a remote
store (`shares`), and `log.cleaner.io.max.bytes.per.second`. Settings are read when a round begins, so changes
hold from the next one on.

`LogCleanerManager` says whose turn it is. It looks at the logs every `log.cleaner.backoff.ms`, and when none
is left and a round ends. A round ends early where its log goes, where its topic shall not be compacted any
more, and where its replica begins to move to another folder: what is copied has deleted keys until their
delete markers are copied, too, so these must stay until it is over.

A log that cannot be cleaned, because a batch in it is damaged, is left alone until the next start, and listed
(`UncleanablePartitions`); a full disk ends a round, and the log's turn comes again later. A disk that fails,
in a round or while logs are looked at, takes its folder offline; the others go on.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Final

from headrace.base.errors import ApiError, InvalidBytesError
from headrace.base.ids import TopicPartition
from headrace.log.compaction.cleaner import PIECE_BYTES, Cleaner, CleanerLimits, CleanerStats, Round
from headrace.log.compaction.drivers.log_cleaner_manager import LogCleanerManager
from headrace.log.compaction.drivers.uncleanable_partitions import UncleanablePartitions
from headrace.log.compaction.log_to_clean import LogToClean, may_be_cleaned
from headrace.log.faults import DISK_FULL
from headrace.log.file_names import CLEANER_OFFSETS
from headrace.log.future_logs import future_log_dir
from headrace.log.log_manager import LogManager
from headrace.log.throttler import Throttler
from headrace.log.unified_log import UnifiedLog
from headrace.records.compaction.offset_map import OffsetMap
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
"""Between two looks at whether the bound on bytes lets a round go on."""


def shares(config: BrokerConfig, threads: int) -> int:
    """How many rounds share the memory for compaction: those here, and one in the remote store if there is
    one (`tier_compaction`).
    """
    return threads + int(config.bool("remote.log.storage.system.enable"))


class CleanerTotals:
    """What rounds have done so far, for whoever watches."""

    def __init__(self) -> None:
        self.rounds = 0
        self.bytes_before = 0
        self.bytes_after = 0
        self.last_round_s = 0.0
        self.last_recopy_share = 0.0  # of what the last round read, what it kept

    def note(self, stats: CleanerStats, took_s: float) -> None:
        self.rounds += 1
        self.bytes_before += stats.bytes_before
        self.bytes_after += stats.bytes_after
        self.last_round_s = took_s
        self.last_recopy_share = stats.bytes_after / stats.bytes_before if stats.bytes_before else 0.0


class LogCleaner:
    """Starts rounds, and deals with how they end."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        log_manager: LogManager,
        config: BrokerConfig,
        rng: random.Random,
        on_cleaned: Callable[[CleanerStats], None] = lambda stats: None,
    ) -> None:
        self._loop = loop
        self._log_manager = log_manager
        self._config = config
        self._rng = rng
        self._on_cleaned = on_cleaned
        self._throttler = Throttler(self._bytes_per_second)
        self._rounds: dict[UnifiedLog, asyncio.Task[None]] = {}
        self._uncleanable = UncleanablePartitions(loop, log_manager)
        self._resting: set[UnifiedLog] = set()
        self._manager = LogCleanerManager(
            loop=loop,
            log_manager=log_manager,
            may_begin=self._may_begin,
            on_fault=self._cannot_be_looked_at,
            on_looked=self._begin_rounds,
        )
        self._writing_uncleanable: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stopping = False
        self.totals = CleanerTotals()

    @property
    def rounds_under_way(self) -> int:
        return len(self._rounds)

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
        under_way = [
            *self._rounds.values(),
            *([self._writing_uncleanable] if self._writing_uncleanable is not None else []),
        ]
        if under_way:
            await asyncio.wait(under_way)

    def abandon(self) -> None:
        """Begin nothing more, and end rounds where they are."""
        self._stopping = True
        self._manager.stop()
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        backoff_s = max(self._config.int("log.cleaner.backoff.ms"), 1) / 1000
        self._timer = self._loop.call_later(backoff_s, self._look_again)

    def _look_again(self) -> None:
        self._wait()  # first: whatever goes wrong now, there is a next time
        self._resting.clear()
        if self._uncleanable.forget_gone():
            self._write_uncleanable_soon()
        self._manager.look()

    def _begin_rounds(self) -> None:
        threads = self._threads
        while len(self._rounds) < threads and not self._stopping:
            found = self._manager.grab_filthiest_compacted_log()
            if found is None:
                return
            self._rounds[found.log] = self._loop.create_task(self._run_round(found, threads))

    @property
    def _threads(self) -> int:
        return self._config.int("log.cleaner.threads")

    def _may_begin(self, log: UnifiedLog) -> bool:
        left_out = log in self._rounds or log in self._uncleanable.logs or log in self._resting
        return not left_out and self._may_go_on(log)

    def _may_go_on(self, log: UnifiedLog) -> bool:
        """Whether a round on the log may change it. Not while a future log is copied from it, even one that
        an earlier process began and that nobody goes on with yet."""
        if self._stopping or not may_be_cleaned(log):
            return False
        return future_log_dir(self._log_manager, log.topic_partition) is None

    def _cannot_be_looked_at(self, log: UnifiedLog, error: Exception) -> None:
        self._failed(log, error)
        self._write_uncleanable_soon()

    def _write_uncleanable_soon(self) -> None:
        if self._writing_uncleanable is None or self._writing_uncleanable.done():
            self._writing_uncleanable = self._loop.create_task(self._uncleanable.write_files())

    # -- one round -------------------------------------------------------------------------------------------

    async def _run_round(self, found: LogToClean, threads: int) -> None:
        log, began_s = found.log, self._loop.time()
        try:
            stats = await self._clean(found, threads)
            if stats is not None:
                await self._checkpoint(log)
                _log_stats(stats, found, self._loop.time() - began_s)
                self.totals.note(stats, self._loop.time() - began_s)
                self._on_cleaned(stats)
        except Exception as error:
            self._failed(log, error)
        try:
            await self._uncleanable.write_files()
        finally:
            del self._rounds[log]
        self._begin_rounds()
        if len(self._rounds) < self._threads and not self._stopping:
            self._manager.look()

    async def _clean(self, found: LogToClean, threads: int) -> CleanerStats | None:
        """None where the round was given up."""
        parts = shares(self._config, threads)
        memory_bytes = min(self._config.int("log.cleaner.dedupe.buffer.size") // parts, TABLE_BYTES_MAX)
        runs_bytes, notes_bytes = memory_bytes // RUNS_SHARE, memory_bytes // NOTES_SHARE
        table = OffsetMap(
            memory_bytes - runs_bytes - notes_bytes,
            self._config.float("log.cleaner.io.buffer.load.factor"),
            (self._rng.getrandbits(64), self._rng.getrandbits(64)),
            runs_bytes=runs_bytes,
            notes_bytes=notes_bytes,
        )
        limits = CleanerLimits(
            buffer_bytes=self._config.int("log.cleaner.io.buffer.size") // parts,
            piece_bytes=int(max(PIECE_BYTES_MIN, min(PIECE_BYTES, self._bytes_per_second() / 8))),
        )
        work = Cleaner(found, table, limits, now_ms=self._log_manager.clock.now_ms()).clean()
        try:
            return await self._run_pieces(work, found.log)
        finally:
            work.close()
            table.drop()

    async def _run_pieces(self, work: Round, log: UnifiedLog) -> CleanerStats | None:
        try:
            piece = next(work)
            while self._may_go_on(log):
                try:
                    moved = await self._loop.run_in_executor(None, piece)
                except (OSError, InvalidBytesError) as error:
                    piece = work.throw(error)
                else:
                    await self._throttle(moved, log)
                    if self._may_go_on(log):
                        piece = work.send(moved)
        except StopIteration as stop:
            stats: CleanerStats = stop.value
            return stats if stats.is_whole else None
        return None

    async def _throttle(self, moved: int, log: UnifiedLog) -> None:
        if self._bytes_per_second() >= UNBOUNDED_BYTES_PER_S:
            return
        self._throttler.take(moved)
        while self._throttler.is_used_up(int(self._loop.time() * 1000)) and self._may_go_on(log):
            await asyncio.sleep(PAUSE_S)

    def _bytes_per_second(self) -> float:
        return self._config.float("log.cleaner.io.max.bytes.per.second")

    async def _checkpoint(self, log: UnifiedLog) -> None:
        folder = self._log_manager.folder_of(log.topic_partition)
        for write in self._log_manager.begin_checkpoint((CLEANER_OFFSETS,)):
            if write.folder is folder:
                await self._loop.run_in_executor(None, write.write)

    def _failed(self, log: UnifiedLog, error: Exception) -> None:
        """What becomes of a log that could not be looked at, or cleaned."""
        is_ours = not isinstance(error, (ApiError, InvalidBytesError, OSError))
        if is_ours:
            logger.error("compaction of %s", log.topic_partition, exc_info=error)
        if log.failure is not None:
            return  # deleted, moved, or its folder is offline already
        if not isinstance(error, OSError):
            # A fault of ours, too, must not be met again and again, nor keep other logs from their turn.
            self._uncleanable.add(log, repr(error) if is_ours else str(error))
        elif error.errno in DISK_FULL:
            self._resting.add(log)
            logger.warning("there is no room to compact %s: %s", log.topic_partition, error)
        else:
            folder = self._log_manager.folder_of(log.topic_partition)
            if folder is not None:
                self._log_manager.handle_log_dir_failure(folder, error)


def _log_stats(stats: CleanerStats, found: LogToClean, seconds: float) -> None:
    logger.info(
        "compacted %s up to offset %d in %.1f s: %d segments of %.1f MB are %d of %.1f MB, "
        "%d records are %d; %.1f MB of it were dirty, with %d keys",
        stats.log.topic_partition,
        stats.end_offset,
        seconds,
        stats.segments_before,
        stats.bytes_before / 1e6,
        stats.segments_after,
        stats.bytes_after / 1e6,
        stats.records_read,
        stats.records_kept,
        found.cleanable_bytes / 1e6,
        stats.keys,
    )
