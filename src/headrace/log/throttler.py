"""A bound on bytes per second, for work in the background: compaction, replicas that move, throttled
replicas."""

from collections.abc import Callable
from typing import Final

BURST_S: Final = 1.0
"""What was not used is kept for this long."""


class Throttler:
    """Bytes that may pass: they come at a rate, which may change, and are taken after the fact."""

    def __init__(self, bytes_per_second: Callable[[], float]) -> None:
        self._rate = bytes_per_second
        self._left = 0.0
        self._at_ms: int | None = None

    def is_used_up(self, now_ms: int) -> bool:
        rate = self._rate()
        if self._at_ms is None:
            self._left = rate * BURST_S
        else:
            self._left = min(self._left + rate * (now_ms - self._at_ms) / 1000, rate * BURST_S)
        self._at_ms = now_ms
        return self._left <= 0

    def take(self, size: int) -> None:
        self._left -= size
