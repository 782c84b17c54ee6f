"""A bound on bytes per second, for what can be put off."""

from collections.abc import Callable
from typing import Final

BURST_S: Final = 1.0
"""What was not used is kept for this long."""


class Pace:
    """Bytes come at a rate, which may change; who takes some pays afterwards, by waiting the next time."""

    def __init__(self, bytes_per_second: Callable[[], int]) -> None:
        self._rate = bytes_per_second
        self._free_at = 0.0

    def wait_s(self, now: float) -> float:
        """How long until more may be taken."""
        return max(0.0, self._free_at - now)

    def take(self, size: int, now: float) -> None:
        self._free_at = max(self._free_at, now - BURST_S) + size / self._rate()
