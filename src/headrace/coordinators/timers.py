"""Named deadlines on given time, for machines that may not look at a clock.

A timer is known by its key: setting it again moves it, which heartbeats do all the time. So the heap keeps
stale entries and skips them when they surface, instead of searching for them.
"""

import heapq
from collections.abc import Callable, Hashable
from itertools import count


class Timers:
    """Deadlines in milliseconds of monotonic time."""

    def __init__(self) -> None:
        self._live: dict[Hashable, tuple[int, int, Callable[[int], None]]] = {}
        self._heap: list[tuple[int, int, Hashable]] = []
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._live

    def set(self, key: Hashable, deadline_ms: int, action: Callable[[int], None]) -> None:
        """Run `action(now_ms)` at the deadline, unless the key is set again or cancelled before."""
        number = next(self._numbers)
        self._live[key] = (deadline_ms, number, action)
        heapq.heappush(self._heap, (deadline_ms, number, key))
        if len(self._heap) > 64 and len(self._heap) > 4 * len(self._live):
            self._rebuild()

    def cancel(self, key: Hashable) -> None:
        self._live.pop(key, None)

    def clear(self) -> None:
        self._live.clear()
        self._heap.clear()

    def next_deadline_ms(self) -> int | None:
        """When `run_due` has something to do next."""
        self._drop_stale()
        return self._heap[0][0] if self._heap else None

    def run_due(self, now_ms: int) -> None:
        """Run every action whose deadline has come, in order of deadline."""
        self._drop_stale()
        while self._heap and self._heap[0][0] <= now_ms:
            _, _, key = heapq.heappop(self._heap)
            _, _, action = self._live.pop(key)
            action(now_ms)
            self._drop_stale()

    def _drop_stale(self) -> None:
        while self._heap:
            _, number, key = self._heap[0]
            live = self._live.get(key)
            if live is not None and live[1] == number:
                return
            heapq.heappop(self._heap)

    def _rebuild(self) -> None:
        self._heap = [(deadline, number, key) for key, (deadline, number, _) in self._live.items()]
        heapq.heapify(self._heap)
