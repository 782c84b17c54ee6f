"""How the raft core's effects are carried out: in order (EffectQueue), durably (GroupCommit) and in time
(DeadlineTimer).
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.log.faults import DISK_FULL
from headrace.log.flush import Flush
from headrace.log.unified_log import UnifiedLog
from headrace.raft.messages import Effects, ElectionState

logger = logging.getLogger(__name__)

FULL_DISK_RETRY_S: Final = 0.5
CarryOut = Callable[[Effects], None]
Then = Callable[[], None]


class EffectQueue:
    """Effects of the core, carried out in order: what must be remembered is on the disk before anything that
    rests on it is done or said. `persist` writes the vote and blocks, so it runs in a thread; `carry_out`
    does the rest, on the loop.

    While the vote file is being synced, whatever the core decides meanwhile waits behind it, also answers
    that promise nothing new: they may tell of an epoch that a crash could still take back.

    Where the disk is full the write is tried again until there is room. Until then the node is as one that is
    cut off: what it would say is lost. Any other failure is final.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        persist: Callable[[ElectionState], None],
        carry_out: CarryOut,
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._loop = loop
        self._persist = persist
        self._carry_out = carry_out
        self._on_failure = on_failure
        self._queue: deque[tuple[Effects, Then | None]] = deque()
        self._busy = False
        self._failed = False
        self._is_patient = True
        self._retry: asyncio.TimerHandle | None = None

    def add(self, effects: Effects, then: Then | None = None) -> None:
        """Do what the core decided; `then` is called when all of it and all before it is done."""
        if self._retry is not None and effects.persist is None:
            return  # a disk may be full for days, and others go on asking
        self._queue.append((effects, then))
        if not self._busy and not self._failed:
            self._go_on()

    def wait_no_longer(self) -> None:
        """The node stops: nobody needs what waits for room on the disk."""
        self._is_patient = False
        if self._retry is not None:
            self._retry.cancel()

    def _go_on(self) -> None:
        self._busy = True
        while self._queue and not self._failed:
            effects, then = self._queue[0]
            if effects.persist is not None:
                writing = self._loop.run_in_executor(None, self._persist, effects.persist)
                writing.add_done_callback(self._persisted)
                return
            self._queue.popleft()
            self._carry_out(effects)
            if then is not None:
                then()
        self._busy = False

    def _persisted(self, outcome: "asyncio.Future[None]") -> None:
        error = OSError("writing was cut short") if outcome.cancelled() else outcome.exception()
        if error is None:
            self._retry = None
            effects, then = self._queue[0]
            self._queue[0] = (replace(effects, persist=None), then)
            self._go_on()
        elif isinstance(error, OSError) and error.errno in DISK_FULL and self._is_patient:
            if self._retry is None:
                logger.error("this node takes no part in the quorum until its disk has room: %s", error)
            self._retry = self._loop.call_later(FULL_DISK_RETRY_S, self._go_on)
        else:
            self._failed = True
            self._on_failure(error if isinstance(error, Exception) else OSError(repr(error)))


class GroupCommit:
    """Syncs of the metadata log, one at a time in a thread: what is appended while one runs gathers behind
    it, and the next makes all of it durable together. `on_durable` is told the offset below which everything
    is on the disk, `on_failure` why that will never be known any more.
    """

    def __init__(
        self,
        log: UnifiedLog,
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


class DeadlineTimer:
    """Calls `on_due` at the core's deadline or before it; the callee looks what time it is.

    It follows the deadline lazily: mostly that moves on before it comes, and a timer that rings too early
    costs less than one that is set again with every message.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, on_due: Callable[[], None]) -> None:
        self._loop = loop
        self._clock = clock
        self._on_due = on_due
        self._timer: asyncio.TimerHandle | None = None
        self._rings_ms = 0

    def follow(self, due_ms: int | None) -> None:
        """There is another deadline, or none."""
        if due_ms is None:
            return
        if self._timer is not None:
            if self._rings_ms <= due_ms:
                return
            self._timer.cancel()
        self._rings_ms = due_ms
        wait_ms = max(due_ms - self._clock.monotonic_ms(), 0)
        self._timer = self._loop.call_later(wait_ms / 1000, self._ring)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _ring(self) -> None:
        self._timer = None
        self._on_due()
