"""Time as a parameter: nothing below `node` reads a clock of its own, so that a simulator can own time."""

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for what is written down, monotonic time for what is waited for."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch. May jump in either direction."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds since some fixed moment. Never goes back."""
        ...

    def monotonic_ns(self) -> int:
        """The same in nanoseconds, for how long something took."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    monotonic_ns = staticmethod(time.monotonic_ns)
