"""Syncs of the metadata log, one at a time in a thread: what is appended while one runs gathers behind it,
and the next makes all of it durable together.
"""

import asyncio
from collections.abc import Callable

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.log.flush import Flush
from headrace.log.partition_log import PartitionLog


class GroupCommit:
    """`on_durable` is told the offset below which everything is on the disk, `on_failure` why that will never
    be known any more."""

    def __init__(
        self,
        log: PartitionLog,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        *,
        on_durable: Callable[[int], None],
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._log = log
        self._loop = loop
        self._clock = clock
        self._on_durable = on_durable
        self._on_failure = on_failure
        self._syncing: Flush | None = None
        self._when_idle: list[asyncio.Future[None]] = []
        self._ended = False

    def request(self) -> None:
        """Start a sync, unless one is under way: then the next one follows it."""
        if self._syncing is not None or self._ended:
            return
        try:
            flush = self._log.begin_flush()
        except ApiError as error:
            self._on_failure(error)
            return
        if flush is None:
            return
        self._syncing = flush
        self._loop.run_in_executor(None, flush.sync).add_done_callback(self._synced)

    async def durable(self) -> None:
        """Return when everything written so far is on the disk."""
        end = self._log.log_end_offset
        self.request()
        while self._log.recovery_point < end and self._syncing is not None and not self._ended:
            await self._next_idle()
            self.request()

    async def settle(self) -> None:
        """Return when no sync is under way."""
        while self._syncing is not None and not self._ended:
            await self._next_idle()

    def end(self) -> None:
        """Start no further one: the log has failed."""
        self._ended = True

    async def _next_idle(self) -> None:
        idle = self._loop.create_future()
        self._when_idle.append(idle)
        await idle

    def _synced(self, outcome: "asyncio.Future[None]") -> None:
        flush, self._syncing = self._syncing, None
        assert flush is not None
        error = asyncio.CancelledError() if outcome.cancelled() else outcome.exception()
        if isinstance(error, OSError):
            self._on_failure(self._log.abandon_flush(flush, error))
        elif error is not None:
            self._on_failure(ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, repr(error)))
        else:
            self._log.finish_flush(flush, now_ms=self._clock.now_ms())
            self._on_durable(flush.offset)
            self.request()
        idle, self._when_idle = self._when_idle, []
        for one in idle:
            if not one.done():
                one.set_result(None)
