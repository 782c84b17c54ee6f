"""Flushes logs off the event loop: one flush of a log at a time, and one more if it was asked for meanwhile.

Appends that came while a flush was on its way share the next one, so a topic with `flush.messages=1` costs
one sync for all records that arrive during a sync, and not one for each.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from headrace.base.clock import Clock
from headrace.base.errors import ApiError
from headrace.base.ids import TopicPartition
from headrace.log.unified_log import Flush, UnifiedLog
from headrace.telemetry.metrics.histogram import MILLISECONDS, Histogram

logger = logging.getLogger(__name__)


class LogFlusher:
    """The flushes under way; `on_durable` is told whose recovery point moved, or whose disk failed."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        on_durable: Callable[[TopicPartition], None],
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._on_durable = on_durable
        self._under_way: dict[UnifiedLog, bool] = {}
        self.flush_ms = Histogram(MILLISECONDS)
        self._idle: asyncio.Future[None] | None = None

    async def wait_idle(self) -> None:
        """Return once no thread syncs any more: before logs are closed."""
        while self._under_way:
            self._idle = self._loop.create_future()
            await self._idle

    def request(self, log: UnifiedLog) -> None:
        """Make durable what the log has now."""
        if log in self._under_way:
            self._under_way[log] = True
        else:
            self._begin(log)

    def _begin(self, log: UnifiedLog) -> None:
        try:
            flush = log.begin_flush()
        except ApiError as error:
            logger.error("%s cannot be flushed: %s", log.topic_partition, error)
            self._on_durable(log.topic_partition)
            return
        if flush is None:
            return
        self._under_way[log] = False
        syncing = self._loop.run_in_executor(None, flush.sync)
        syncing.add_done_callback(partial(self._end, log, flush, self._loop.time()))

    def _end(self, log: UnifiedLog, flush: Flush, began_s: float, syncing: "asyncio.Future[None]") -> None:
        again = self._under_way.pop(log)
        error = None if syncing.cancelled() else syncing.exception()
        self.flush_ms.observe((self._loop.time() - began_s) * 1000)
        if error is None:
            log.finish_flush(flush, now_ms=self._clock.now_ms())
        elif not isinstance(error, OSError):
            raise error
        elif log.failure is None:
            log.abandon_flush(flush, error)
        # Else it was deleted or moved meanwhile: that its files are elsewhere is no fault of the disk.
        if again and log.failure is None:
            self._begin(log)
        self._on_durable(log.topic_partition)
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)
