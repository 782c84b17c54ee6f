"""Staying awake for a moment: where the next request is likely to come at once, the loop does not sleep.

A client that waits for each reply sends its next request some 20 µs after it. A loop that went to sleep
meanwhile has to be woken, by an interrupt to a core that has to be woken too: on a virtual machine that takes
longer, and costs both sides more CPU, than serving the request. So after a request the loop is kept turning,
without sleeping, for as long as `WAIT_NS`; whoever else wants the core gets it in between.

Whether that is worth it shows by itself: a pause that ended within that time earns credit, a longer one
costs more of it, and without credit the loop sleeps at once. Requests that come now and then are never
waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

WAIT_NS: Final = 50_000
SLEPT_NS: Final = 200_000
CREDIT_MAX: Final = 8
LOST: Final = 3
"""What a pause that was too long costs: three that were short."""


class Attention:
    """One per loop. Connections say when they were served. `give_way` lets others have the core."""

    __slots__ = ("_credit", "_give_way", "_is_fresh", "_loop", "_monotonic_ns", "_quiet_since", "_turning")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        monotonic_ns: Callable[[], int],
        give_way: Callable[[], object],
    ) -> None:
        self._loop = loop
        self._give_way = give_way
        self._monotonic_ns = monotonic_ns
        self._credit = 0
        self._quiet_since = 0
        self._turning = False
        self._is_fresh = False

    def served(self) -> None:
        """Something was just read and handled."""
        self._is_fresh = True
        if self._turning:
            return
        now = self._monotonic_ns()
        # The loop has slept, and being woken has made the pause longer than it need have been.
        self._judge(now - self._quiet_since < SLEPT_NS)
        self._quiet_since = now
        if self._credit:
            self._turning = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        now = self._monotonic_ns()
        if self._is_fresh:
            self._is_fresh = False
            self._quiet_since = now
            self._judge(True)
        elif now - self._quiet_since > WAIT_NS:
            self._judge(False)
            self._turning = False
            return
        self._give_way()
        self._loop.call_soon(self._turn)

    def _judge(self, was_short: bool) -> None:
        self._credit = min(self._credit + 1, CREDIT_MAX) if was_short else max(self._credit - LOST, 0)
