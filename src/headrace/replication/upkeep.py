"""The regular work on a node's logs: flushes, checkpoints, retention, removal of what was deleted.

One timer per kind of work, at Kafka's intervals. What blocks runs in a thread; a disk that fails there takes
its folder offline, as it would anywhere else.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from headrace.base.errors import ApiError
from headrace.log.file_names import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from headrace.log.log_folder import LogFolder
from headrace.log.log_store import LogStore
from headrace.log.partition_log import PartitionLog
from headrace.replication.flushing import Flushing
from headrace.settings.broker_config import BrokerConfig

logger = logging.getLogger(__name__)

# Rolled segments are synced, and files whose delay is over removed, within this time.
SOON_MS: Final = 1_000
# `flush.ms` is kept to within this, whatever `log.flush.scheduler.interval.ms` says (by default: never).
FLUSH_CHECK_MS_MAX: Final = 5_000
# Retention begins a while after the start, which has enough to do (Kafka waits as long).
FIRST_RETENTION_MS: Final = 30_000
# Logs that retention looks at in one turn of the loop: some 2 ms where nothing is to be dropped.
RETENTION_SLICE: Final = 100


class Upkeep:
    """Timers over a `LogStore`."""

    def __init__(
        self, *, loop: asyncio.AbstractEventLoop, store: LogStore, flushing: Flushing, config: BrokerConfig
    ) -> None:
        self._loop = loop
        self._store = store
        self._flushing = flushing
        self._config = config
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
            "producers", interval("producer.id.expiration.check.interval.ms"), self._store.expire_producers
        )

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
        for log in list(self._store.to_flush):
            self._flushing.request(log)
        for removal in self._store.take_removals():
            self._in_thread(removal.folder, removal.run)

    def _flush_due(self) -> None:
        now_ms = self._store.clock.now_ms()
        for log in self._store.logs():
            if log.flush_due(now_ms):
                self._flushing.request(log)

    def _apply_retention(self) -> None:
        self._retain(list(self._store.logs()), 0)

    def _retain(self, logs: list[PartitionLog], dropped: int) -> None:
        """A slice of the logs now, the others when whoever came meanwhile was served."""
        now_ms = self._store.clock.now_ms()
        for log in logs[:RETENTION_SLICE]:
            try:
                dropped += log.apply_retention(now_ms)
            except ApiError as error:
                logger.error("retention of %s: %s", log.topic_partition, error)
        del logs[:RETENTION_SLICE]
        if logs:
            self._timers["retention, the rest"] = self._loop.call_later(0, self._retain, logs, dropped)
        elif dropped:
            logger.info("retention dropped %d segments", dropped)

    def _checkpoint(self, name: str) -> None:
        for write in self._store.begin_checkpoint((name,)):
            self._in_thread(write.folder, write.write)

    def _checkpoint_high_watermarks(self) -> None:
        """Every few seconds, so only where something moved."""
        now = {log.topic_partition: log.high_watermark for log in self._store.logs()}
        if now != self._high_watermarks_written:
            self._high_watermarks_written = dict(now)
            self._checkpoint(HIGH_WATERMARKS)

    def _in_thread(self, folder: LogFolder, work: Callable[[], None]) -> None:
        def done(running: "asyncio.Future[None]") -> None:
            error = None if running.cancelled() else running.exception()
            if isinstance(error, OSError):
                self._store.fail_folder(folder, error)
            elif error is not None:
                raise error

        self._loop.run_in_executor(None, work).add_done_callback(done)
