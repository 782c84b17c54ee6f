"""How many members this node coordinates, counted now and then: it sets the pace of calm heartbeats."""

from collections.abc import Callable
from typing import Final

from headrace.base.clock import Clock

COUNTED_FOR_MS: Final = 1_000


class Census:
    """A count that may be a second old, so that asking costs nothing."""

    def __init__(self, clock: Clock, count: Callable[[], int]) -> None:
        self._clock = clock
        self._count = count
        self._members = 0
        self._counted_ms: int | None = None

    def members(self) -> int:
        now_ms = self._clock.monotonic_ms()
        if self._counted_ms is None or now_ms - self._counted_ms >= COUNTED_FOR_MS:
            self._members, self._counted_ms = self._count(), now_ms
        return self._members
