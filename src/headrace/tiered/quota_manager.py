"""RLMQuotaManager: Kafka's bound on bytes per second, for copies to the remote store and for reads."""

from collections.abc import Callable
from typing import Final

BURST_S: Final = 1.0
"""What was not used is kept for this long."""


class RLMQuotaManager:
    """Bytes come at a rate; who takes more than there are leaves a debt, and the next one waits until it is
    paid. The debt is kept in bytes, so that a rate that changes holds at once for what was taken before.
    """

    def __init__(self, bytes_per_second: Callable[[], int]) -> None:
        self._rate = bytes_per_second
        self._debt = 0.0  # bytes; below 0 it is what was not used
        self._counted_at = 0.0

    def wait_s(self, now: float) -> float:
        """How long until more may be taken, at today's rate."""
        self._pay(now)
        return max(0.0, self._debt / self._rate())

    def take(self, size: int, now: float) -> None:
        """So many bytes are moved; less than 0 where it turned out to be fewer than were taken."""
        self._pay(now)
        self._debt += size

    def _pay(self, now: float) -> None:
        rate = self._rate()
        self._debt = max(self._debt - (now - self._counted_at) * rate, -BURST_S * rate)
        self._counted_at = now
