"""Kafka's ShareGroupMetrics: what members of share groups answer, and how long their states took to load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from headrace.telemetry.metrics.histogram import MILLISECONDS, Histogram


class ShareGroupMetrics:
    """All share groups of a node."""

    def __init__(self) -> None:
        self.acknowledged: Counter[int] = Counter()  # records, by the number of the answer
        self.dead_letters = 0
        self.partition_load_ms = Histogram(MILLISECONDS)

    def note_acknowledged(self, first_offset: int, last_offset: int, types: Sequence[int]) -> None:
        """A range was answered for: by one type for all of it, or one for each record."""
        if len(types) == 1:
            self.acknowledged[types[0]] += last_offset - first_offset + 1
        else:
            self.acknowledged.update(types)
