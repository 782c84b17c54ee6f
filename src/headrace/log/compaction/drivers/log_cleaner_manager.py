"""Which log is compacted next.

All logs are looked at now and then, a slice of them each turn of the loop, because a node may have thousands.
Those that are worth a round wait in the order of how dirty they are, and each is looked at again when its
turn comes: it may have been truncated, deleted or moved meanwhile, or its settings may have changed.

Looking reads the disk. A log with which that does not work is told to `on_fault`, and is no reason not to
look at the others.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from headrace.log.compaction.log_to_clean import LogToClean, filthiest_first, worth_cleaning
from headrace.log.log_manager import LogManager
from headrace.log.unified_log import UnifiedLog

# Logs that are looked at in one turn of the loop: half a millisecond where each has five segments.
SLICE: Final = 100


class LogCleanerManager:
    """The logs that are worth a round. `may_begin` says whether one may begin on a log now."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        log_manager: LogManager,
        may_begin: Callable[[UnifiedLog], bool],
        on_fault: Callable[[UnifiedLog, Exception], None],
        on_looked: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._log_manager = log_manager
        self._may_begin = may_begin
        self._on_fault = on_fault
        self._on_looked = on_looked
        self._waiting: deque[LogToClean] = deque()
        self._looking: asyncio.Handle | None = None

    def look(self) -> None:
        """Look at all logs, and call `on_looked` then. One look at a time."""
        if self._looking is None:
            self._look_at_slice(list(self._log_manager.logs()), [])

    def stop(self) -> None:
        self._waiting.clear()
        if self._looking is not None:
            self._looking.cancel()

    def grab_filthiest_compacted_log(self) -> LogToClean | None:
        """The log whose turn it is; None where none waits."""
        while self._waiting:
            found = self._look_at(self._waiting.popleft().log)
            if found is not None:
                return found
        return None

    def _look_at_slice(self, logs: list[UnifiedLog], worth_it: list[LogToClean]) -> None:
        """A slice of the logs now, the others in later turns of the loop."""
        for log in logs[-SLICE:]:
            found = self._look_at(log)
            if found is not None:
                worth_it.append(found)
        del logs[-SLICE:]
        if logs:
            self._looking = self._loop.call_soon(self._look_at_slice, logs, worth_it)
            return
        self._looking = None
        self._waiting = deque(filthiest_first(worth_it))
        self._on_looked()

    def _look_at(self, log: UnifiedLog) -> LogToClean | None:
        if not self._may_begin(log):
            return None
        try:
            return worth_cleaning(log, self._log_manager.clock.now_ms())
        except Exception as error:
            self._on_fault(log, error)
            return None
