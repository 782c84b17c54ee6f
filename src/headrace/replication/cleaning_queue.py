"""Which logs wait for a round of compaction, and in which order.

All logs are looked at now and then, a slice of them each turn of the loop, because a node may have thousands.
Those that are worth a round wait in the order of how dirty they are, and each is looked at again when its
turn comes: it may have been cut back, deleted or moved meanwhile, or its settings may have changed.

Looking reads the disk. A log with which that does not work is somebody's to deal with (`on_fault`), and no
reason not to look at the others.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from headrace.log.cleaner_picking import Cleanable, dirtiest_first, worth_cleaning
from headrace.log.log_store import LogStore
from headrace.log.partition_log import PartitionLog

# Logs that are looked at in one turn of the loop: half a millisecond where each has five segments.
SLICE: Final = 100


class CleaningQueue:
    """Logs that are worth a round. `may_begin` says of which none may begin now."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        store: LogStore,
        may_begin: Callable[[PartitionLog], bool],
        on_fault: Callable[[PartitionLog, Exception], None],
        on_filled: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._store = store
        self._may_begin = may_begin
        self._on_fault = on_fault
        self._on_filled = on_filled
        self._waiting: deque[Cleanable] = deque()
        self._looking: asyncio.Handle | None = None

    def fill(self) -> None:
        """Look at all logs, and tell `on_filled` then. One look at a time."""
        if self._looking is None:
            self._look(list(self._store.logs()), [])

    def stop(self) -> None:
        self._waiting.clear()
        if self._looking is not None:
            self._looking.cancel()

    def take(self) -> Cleanable | None:
        """The next whose turn it is; None where none waits."""
        while self._waiting:
            found = self._look_at(self._waiting.popleft().log)
            if found is not None:
                return found
        return None

    def _look(self, logs: list[PartitionLog], worth_it: list[Cleanable]) -> None:
        """A slice of the logs now, the others when whoever came meanwhile was served."""
        for log in logs[-SLICE:]:
            found = self._look_at(log)
            if found is not None:
                worth_it.append(found)
        del logs[-SLICE:]
        if logs:
            self._looking = self._loop.call_soon(self._look, logs, worth_it)
            return
        self._looking = None
        self._waiting = deque(dirtiest_first(worth_it))
        self._on_filled()

    def _look_at(self, log: PartitionLog) -> Cleanable | None:
        if not self._may_begin(log):
            return None
        try:
            return worth_cleaning(log, self._store.clock.now_ms())
        except Exception as error:
            self._on_fault(log, error)
            return None
