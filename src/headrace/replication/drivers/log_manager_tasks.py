"""LogManager's scheduled tasks: flushes, checkpoints, retention, removal of what was deleted.

One timer for each task, at Kafka's intervals. What blocks runs in a thread; a disk that fails there takes its
folder offline, as it would anywhere else.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from headrace.base.errors import ApiError
from headrace.log.faults import OUT_OF_DESCRIPTORS
from headrace.log.file_names import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from headrace.log.log_directory import LogDirectory
from headrace.log.log_manager import LogManager
from headrace.log.log_scrubber import SLICE_BYTES, ScrubSlice, begin_scrub
from headrace.log.unified_log import UnifiedLog
from headrace.replication.drivers.log_flusher import LogFlusher
from headrace.settings.broker_config import BrokerConfig
from headrace.telemetry.limited_log import LimitedLog

logger = logging.getLogger(__name__)

# Rolled segments are synced, and files whose delay is over removed, within this time.
SOON_MS: Final = 1_000
# `flush.ms` is kept to within this, whatever `log.flush.scheduler.interval.ms` says (by default: never).
FLUSH_CHECK_MS_MAX: Final = 5_000
# Retention begins a while after the start, which has enough to do (Kafka waits as long).
FIRST_RETENTION_MS: Final = 30_000
# Between two searches for damage in all that there is; between two looks whether one that is off is on again.
SCRUB_AGAIN_S: Final = 7 * 24 * 3600.0
SCRUB_LOOK_S: Final = 60.0
# Logs that retention looks at in one turn of the loop: some 2 ms where nothing is to be dropped.
RETENTION_SLICE: Final = 100


class LogManagerTasks:
    """The timers over a `LogManager`."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        log_manager: LogManager,
        log_flusher: LogFlusher,
        config: BrokerConfig,
    ) -> None:
        self._loop = loop
        self._log_manager = log_manager
        self._log_flusher = log_flusher
        self._config = config
        self._lacking = LimitedLog(loop.time, logger, logging.WARNING)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._high_watermarks_written: dict[object, int] = {}

    def start(self) -> None:
        interval = self._config.int
        self._repeat("soon", SOON_MS, self._do_soon)
        flush_ms = min(interval("log.flush.scheduler.interval.ms"), FLUSH_CHECK_MS_MAX)
        self._repeat("flush", flush_ms, self._flush_due)
        self._repeat(
            "recovery points",
            interval("log.flush.offset.checkpoint.interval.ms"),
            lambda: self._checkpoint(RECOVERY_POINTS),
        )
        self._repeat(
            "log starts",
            interval("log.flush.start.offset.checkpoint.interval.ms"),
            lambda: self._checkpoint(LOG_STARTS),
        )
        self._repeat(
            "high watermarks",
            interval("replica.high.watermark.checkpoint.interval.ms"),
            self._checkpoint_high_watermarks,
        )
        retention_ms = interval("log.retention.check.interval.ms")
        self._repeat(
            "retention", retention_ms, self._apply_retention, first_ms=min(FIRST_RETENTION_MS, retention_ms)
        )
        self._repeat(
            "producers",
            interval("producer.id.expiration.check.interval.ms"),
            self._log_manager.expire_producers,
        )
        for folder in self._log_manager.live_log_dirs():
            self._scrub_later(folder, begin_scrub(folder))

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _repeat(
        self, name: str, every_ms: int, work: Callable[[], None], *, first_ms: int | None = None
    ) -> None:
        def run() -> None:
            self._timers[name] = self._loop.call_later(every_ms / 1000, run)
            try:
                work()
            except ApiError as error:
                # A failed disk: its folder is offline by now, the others go on.
                logger.error("%s: %s", name, error)

        self._timers[name] = self._loop.call_later((every_ms if first_ms is None else first_ms) / 1000, run)

    def _do_soon(self) -> None:
        for log in list(self._log_manager.to_flush):
            self._log_flusher.request(log)
        for removal in self._log_manager.take_removals():
            self._in_thread(removal.folder, removal.run)

    def _flush_due(self) -> None:
        now_ms = self._log_manager.clock.now_ms()
        for log in self._log_manager.logs():
            if log.flush_due(now_ms):
                self._log_flusher.request(log)

    def _apply_retention(self) -> None:
        self._retain(list(self._log_manager.logs()), 0)

    def _retain(self, logs: list[UnifiedLog], dropped: int) -> None:
        """A slice of the logs now, the others when whoever came meanwhile was served."""
        now_ms = self._log_manager.clock.now_ms()
        for log in logs[:RETENTION_SLICE]:
            try:
                dropped += log.delete_old_segments(now_ms)
            except ApiError as error:
                logger.error("retention of %s: %s", log.topic_partition, error)
        del logs[:RETENTION_SLICE]
        if logs:
            self._timers["retention, the rest"] = self._loop.call_later(0, self._retain, logs, dropped)
        elif dropped:
            logger.info("retention dropped %d segments", dropped)

    def _checkpoint(self, name: str) -> None:
        for write in self._log_manager.begin_checkpoint((name,)):
            self._in_thread(write.folder, write.write)

    def _checkpoint_high_watermarks(self) -> None:
        """Every few seconds, so only where something moved."""
        now = {log.topic_partition: log.high_watermark for log in self._log_manager.logs()}
        if now != self._high_watermarks_written:
            self._high_watermarks_written = dict(now)
            self._checkpoint(HIGH_WATERMARKS)

    def _scrub_later(self, folder: LogDirectory, scrub: ScrubSlice) -> None:
        """The next slice when the bytes of the last one are paid for, by the rate of this moment."""
        rate = self._config.int("headrace.log.scrub.bytes.per.second")
        if rate:
            again, delay_s = self._scrub, max(scrub.bytes_read, SLICE_BYTES) / rate
        else:
            again, delay_s = self._scrub_later, SCRUB_LOOK_S
        self._timers[f"scrub {folder.path}"] = self._loop.call_later(delay_s, again, folder, scrub)

    def _scrub(self, folder: LogDirectory, scrub: ScrubSlice) -> None:
        """The next slice in a thread; when all has been read, everything again much later."""

        def finish() -> None:
            scrub.finish()
            if not folder.online or not self._timers:
                return
            if not scrub.is_over:
                self._scrub_later(folder, scrub)
            else:
                self._timers[f"scrub {folder.path}"] = self._loop.call_later(
                    SCRUB_AGAIN_S, lambda: self._scrub_later(folder, begin_scrub(folder))
                )

        self._in_thread(folder, scrub.run, finish)

    def _in_thread(
        self, folder: LogDirectory, work: Callable[[], None], then: Callable[[], None] = lambda: None
    ) -> None:
        def done(running: "asyncio.Future[None]") -> None:
            error = None if running.cancelled() else running.exception()
            if isinstance(error, OSError) and error.errno in OUT_OF_DESCRIPTORS:
                self._lacking.write("%s: no file can be opened, trying again later: %s", folder.path, error)
            elif isinstance(error, OSError):
                self._log_manager.handle_log_dir_failure(folder, error)
            elif error is not None:
                raise error
            elif not running.cancelled():
                then()

        self._loop.run_in_executor(None, work).add_done_callback(done)
