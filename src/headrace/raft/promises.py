"""Effects of the raft core, carried out in order: what must be remembered is on the disk before anything
that rests on it is done or said.

While the vote file is being synced in a thread, whatever the core decides meanwhile waits behind it, also
answers that promise nothing new: they may tell of an epoch that a crash could still take back.

Where the disk is full the write is tried again until there is room. Until then the node is as one that is cut
off: what it would say is lost. Any other failure is final.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from headrace.log.faults import FULL
from headrace.raft.messages import Effects, ElectionState

logger = logging.getLogger(__name__)

FULL_DISK_RETRY_S: Final = 0.5
CarryOut = Callable[[Effects], None]
Then = Callable[[], None]


class Promises:
    """`persist` writes the vote and blocks: it runs in a thread. `carry_out` does the rest, on the loop."""

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
        elif isinstance(error, OSError) and error.errno in FULL and self._is_patient:
            if self._retry is None:
                logger.error("this node takes no part in the quorum until its disk has room: %s", error)
            self._retry = self._loop.call_later(FULL_DISK_RETRY_S, self._go_on)
        else:
            self._failed = True
            self._on_failure(error if isinstance(error, Exception) else OSError(repr(error)))
