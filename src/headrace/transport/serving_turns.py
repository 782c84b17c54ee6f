"""Whose turn it is to be served: a connection has a slice of time, and the loop turns between any two.

A request can take long, and a peer can send thousands of them at once. Whoever has used up its slice
(`SLICE_NS`) stands in one queue with all others that have, and each turn of the loop serves the queue for one
slice. What the loop finds readable is served between any two slices, however much is queued: short
requests never wait for long ones.

Many connections that each use a part of their slice would still make a long turn together. So the time that a
turn has taken is counted, and beyond `TURN_NS` connections whose reads are known to take long queue, too, and
newcomers, of whom nothing is known. Those who come by the thousand have a queue of their own, which gets a
slice of each turn as well: newcomers, and who had to wait for memory.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

SLICE_NS: Final = 2_000_000
"""What a connection may use at once: a hundred small requests, and too short to be noticed by others."""

TURN_NS: Final = 4_000_000
"""From here on a turn of the loop has been long: who is known to take long waits for the next."""

NEVER_NS: Final = 1 << 62

LONG_NS: Final = 500_000
"""A connection whose reads take longer than that is one that takes long."""


class QueuedConnection(Protocol):
    """What the queue needs of a connection."""

    def take_turn(self) -> None:
        """Go on for a slice, and join again if there is more to do."""


class ServingTurns:
    """The queue of one loop's connections, first come first served."""

    __slots__ = (
        *("_crowd", "_is_planned", "_loop", "_queue", "_spent_ns"),
        *("monotonic_ns", "on_slow", "served_ns", "slow_ns"),
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        monotonic_ns: Callable[[], int] | None = None,
        *,
        slow_ns: int = NEVER_NS,
        on_slow: Callable[[Any, int], None] = lambda attached, spent_ns: None,
    ) -> None:
        """`on_slow` is told of a connection, by what is attached to it, that was served for `slow_ns` or more
        at once."""
        self.slow_ns = slow_ns
        self.on_slow = on_slow
        self._loop = loop
        # The loop's own time may stand still during a turn, and then nothing is cut into slices.
        self.monotonic_ns = monotonic_ns or (lambda: int(loop.time() * 1e9))
        self._queue: deque[QueuedConnection] = deque()
        self._crowd: deque[QueuedConnection] = deque()
        self._spent_ns = 0
        self.served_ns = 0  # in all, for metrics
        self._is_planned = False

    @property
    def is_crowded(self) -> bool:
        """Whether others wait, or this turn has been long already."""
        return bool(self._queue) or bool(self._crowd) or self._spent_ns > TURN_NS

    def note_spent(self, spent_ns: int) -> None:
        """A connection was served for so long outside of the queue."""
        self._spent_ns += spent_ns
        self.served_ns += spent_ns
        if self._spent_ns > TURN_NS:
            self._plan()

    def join(self, connection: QueuedConnection, *, in_crowd: bool = False) -> None:
        """Stand at the end of a queue. A connection joins once, and again after its turn."""
        (self._crowd if in_crowd else self._queue).append(connection)
        self._plan()

    def _plan(self) -> None:
        if not self._is_planned:
            self._is_planned = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_planned = False
        self._spent_ns = 0
        try:
            if self._queue:
                self._serve(self._queue)
            if self._crowd:
                self._serve(self._crowd)
        finally:
            if self._queue or self._crowd:
                self._plan()

    def _serve(self, queue: deque[QueuedConnection]) -> None:
        began = now = self.monotonic_ns()
        for _ in range(len(queue)):
            queue.popleft().take_turn()
            now = self.monotonic_ns()
            if now >= began + SLICE_NS:
                break
        self.served_ns += now - began
