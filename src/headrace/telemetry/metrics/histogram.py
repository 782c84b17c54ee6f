"""A histogram that costs a search among a few bounds and three additions."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

MILLISECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000)
"""From a short request to one that everybody notices."""

BYTES: Final = (128, 512, 2048, 8192, 32768, 131072, 524288, 2097152, 8388608)


class Histogram:
    """Counts of observations up to each bound, and their sum."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)  # the last: above all bounds
        self.sum = 0.0

    def observe(self, value: float) -> None:
        if value:
            self.counts[bisect_left(self.bounds, value)] += 1
            self.sum += value
        else:
            self.counts[0] += 1  # as most do not wait for anything

    def __bool__(self) -> bool:
        """Whether anything was observed."""
        return any(self.counts)

    def cumulative(self) -> list[tuple[str, float]]:
        """Bounds as texts, with the number of observations up to each."""
        total = 0
        rows = []
        for bound, count in zip((*map(str, map(float, self.bounds)), "+Inf"), self.counts, strict=True):
            total += count
            rows.append((bound, float(total)))
        return rows
