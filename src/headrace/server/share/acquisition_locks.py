"""AcquisitionLocks: when the locks of all share partitions of a node end, on one wheel with one timer.

A lock is as long as a group wants, and most are over before: their records were answered for. So nothing is
cancelled, and a share partition is noted once for each tick in which one of its locks ends. It is asked then
what is really over.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

# A lock may be longer than it says by this much: short beside the shortest lock, a second.
TICK_MS: Final = 100


class AcquisitionLocks(Generic[T]):
    """Who has a lock that ends in which tick. `call_at(ms, action)` runs an action at a time."""

    def __init__(
        self, call_at: Callable[[int, Callable[[], None]], None], expire: Callable[[T], None]
    ) -> None:
        self._call_at = call_at
        self._expire = expire
        self._ticks: dict[int, dict[T, None]] = {}
        self._order: list[int] = []
        self._alarms: set[int] = set()

    def add(self, owner: T, deadline_ms: int) -> None:
        tick = -(-deadline_ms // TICK_MS)
        owners = self._ticks.get(tick)
        if owners is not None:
            owners[owner] = None
            return
        self._ticks[tick] = {owner: None}
        heapq.heappush(self._order, tick)
        self._arm()

    def _arm(self) -> None:
        if self._order and not any(alarm <= self._order[0] for alarm in self._alarms):
            tick = self._order[0]
            self._alarms.add(tick)
            self._call_at(tick * TICK_MS, lambda: self._ring(tick))

    def _ring(self, tick: int) -> None:
        self._alarms.discard(tick)
        while self._order and self._order[0] <= tick:
            for owner in self._ticks.pop(heapq.heappop(self._order)):
                self._expire(owner)
        self._arm()

    def clear(self) -> None:
        self._ticks.clear()
        self._order.clear()
