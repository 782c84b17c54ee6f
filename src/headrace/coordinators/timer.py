"""CoordinatorTimer: timeouts by key, on time that is given to it, for shards that may not look at a clock.

Scheduling a key again moves its timeout, which heartbeats do all the time. So the heap keeps stale entries
and skips them when they surface, instead of searching for them.
"""

import heapq
from collections.abc import Callable, Hashable
from itertools import count


class CoordinatorTimer:
    """Timeouts in milliseconds of monotonic time."""

    def __init__(self) -> None:
        self._live: dict[Hashable, tuple[int, int, Callable[[int], None]]] = {}
        self._heap: list[tuple[int, int, Hashable]] = []
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._live)

    def is_scheduled(self, key: Hashable) -> bool:
        return key in self._live

    def schedule(self, key: Hashable, deadline_ms: int, action: Callable[[int], None]) -> None:
        """Run `action(now_ms)` at the deadline, unless the key is scheduled again or cancelled before."""
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

    def run_due(self, now_ms: int, *, at_most: int | None = None) -> None:
        """Run the actions whose deadline has come, in order of deadline: all of them, or so many."""
        ran = 0
        self._drop_stale()
        while ran != at_most and self._heap and self._heap[0][0] <= now_ms:
            _, _, key = heapq.heappop(self._heap)
            _, _, action = self._live.pop(key)
            action(now_ms)
            self._drop_stale()
            ran += 1

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
