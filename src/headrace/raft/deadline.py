"""A timer that follows the core's deadline lazily: mostly that moves on before it comes, and a timer that
rings too early costs less than one that is set anew with every message.
"""

import asyncio
from collections.abc import Callable

from headrace.base.clock import Clock


class Deadline:
    """Calls `on_due` at the deadline or before it; whoever is called looks what time it is."""

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
