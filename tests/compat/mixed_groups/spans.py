"""Sets of offsets as few ranges, for each partition."""

from bisect import bisect_left, insort


class Spans:
    """Ranges [first, end) that do not touch each other, in order."""

    def __init__(self) -> None:
        self._of: dict[int, list[tuple[int, int]]] = {}

    def add(self, partition: int, first: int, end: int) -> None:
        ranges = self._of.setdefault(partition, [])
        at = max(0, bisect_left(ranges, (first, 0)) - 1)
        while at < len(ranges) and ranges[at][0] <= end:
            if ranges[at][1] >= first:
                old = ranges.pop(at)
                first, end = min(first, old[0]), max(end, old[1])
            else:
                at += 1
        insort(ranges, (first, end))

    def missing(self, partition: int, end: int) -> list[tuple[int, int]]:
        """What is not there of [0, end)."""
        gaps, at = [], 0
        for first, last in self._of.get(partition, ()):
            if first >= end:
                break
            if first > at:
                gaps.append((at, first))
            at = max(at, last)
        if at < end:
            gaps.append((at, end))
        return gaps
