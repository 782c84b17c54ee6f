"""Clocks of simulated machines: all run on the scheduler's time, none shows the same wall time.

A machine's wall clock may be off by any amount and jump in either direction; its monotonic clock is the
world's time and never goes back. Without a scheduler, a clock stands still until `advance` moves it, as
unit tests want.
"""

from collections.abc import Callable
from typing import Final, Protocol

# A fixed day, so that runs do not depend on the day they are made on (14 November 2023).
WALL_MS_AT_START: Final = 1_700_000_000_000


class VirtualClock:
    """Implements `base.clock.Clock`."""

    def __init__(self, time_ns: Callable[[], int] | None = None, *, wall_ms: int = WALL_MS_AT_START) -> None:
        self._time_ns = time_ns or (lambda: 0)
        self._started_ms = self._time_ns() // 1_000_000
        self._advanced_ms = 0
        self._wall_ms = wall_ms

    def now_ms(self) -> int:
        return self._wall_ms + self.monotonic_ms() - self._started_ms

    def monotonic_ms(self) -> int:
        return self._time_ns() // 1_000_000 + self._advanced_ms

    def monotonic_ns(self) -> int:
        return self._time_ns() + self._advanced_ms * 1_000_000

    def jump(self, by_ms: int) -> None:
        """Somebody set the wall clock: it differs by `by_ms` from now on. Monotonic time does not notice."""
        self._wall_ms += by_ms

    def advance(self, by_ms: int) -> None:
        """Let time pass on this clock alone."""
        assert by_ms >= 0, "time never goes back; jump() sets the wall clock"
        self._advanced_ms += by_ms


class Spender(Protocol):
    """A process whose work takes time."""

    spent_ns: int

    def spend(self, ns: int) -> None: ...


class BusyClock:
    """The clock of a machine on which work takes time; implements `base.clock.Clock`.

    A node looks at its monotonic clock after every frame and after every slice of work, to see whose turn it
    is (`transport/serving_turns.py`). So what a look costs is what a frame costs, and some sixty elements.
    """

    def __init__(self, clock: VirtualClock, process: Spender, look_ns: int) -> None:
        self._clock = clock
        self._process = process
        self._look_ns = look_ns

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def monotonic_ms(self) -> int:
        return self._clock.monotonic_ms()

    def monotonic_ns(self) -> int:
        self._process.spend(self._look_ns)
        return self._clock.monotonic_ns() + self._process.spent_ns
