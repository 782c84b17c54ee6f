"""The segments of one log in the order of their offsets; the last one is active."""

from bisect import bisect_right
from collections.abc import Iterator

from headrace.log.segment import Segment


class Segments:
    """Never empty once a log is open."""

    __slots__ = ("_bases", "_segments", "active", "inactive_bytes")

    active: Segment

    def __init__(self, segments: list[Segment]) -> None:
        self._bases: list[int] = []
        self._segments: list[Segment] = []
        self.inactive_bytes = 0
        for segment in segments:
            self.add(segment)

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    @property
    def first(self) -> Segment:
        return self._segments[0]

    @property
    def size_bytes(self) -> int:
        return self.inactive_bytes + self.active.size

    @property
    def bases(self) -> list[int]:
        return list(self._bases)

    def add(self, segment: Segment) -> None:
        """Put a segment behind the last one; it becomes the active one."""
        if self._segments:
            assert segment.base_offset > self.active.base_offset
            self.inactive_bytes += self.active.size
        self._bases.append(segment.base_offset)
        self._segments.append(segment)
        self.active = segment

    def number_of(self, offset: int) -> int:
        """The number of the segment that holds `offset`; -1 where it lies before all."""
        return bisect_right(self._bases, offset) - 1

    def from_number(self, number: int) -> list[Segment]:
        return self._segments[max(number, 0) :]

    def base_after(self, number: int) -> int | None:
        """The base offset of the segment behind this one; None for the active one."""
        return self._bases[number + 1] if number + 1 < len(self._bases) else None

    def __getitem__(self, number: int) -> Segment:
        return self._segments[number]

    def replace(self, old: list[Segment], new: Segment) -> None:
        """Put one segment in the place of neighbours; the active one is not among them."""
        number = self._segments.index(old[0])
        assert self._segments[number : number + len(old)] == old
        assert number + len(old) < len(self._segments)
        self._segments[number : number + len(old)] = [new]
        self._bases[number : number + len(old)] = [new.base_offset]
        self.inactive_bytes += new.size - sum(segment.size for segment in old)

    def drop_first(self, count: int) -> list[Segment]:
        """Take out the oldest segments; the active one stays."""
        assert count < len(self._segments)
        dropped = self._segments[:count]
        self.inactive_bytes -= sum(segment.size for segment in dropped)
        del self._segments[:count], self._bases[:count]
        return dropped

    def drop_from(self, number: int) -> list[Segment]:
        """Take out the segments from this number on. Where none is left, `add` one before anything else."""
        dropped = self._segments[number:]
        del self._segments[number:], self._bases[number:]
        if self._segments:
            self.active = self._segments[-1]
        self.inactive_bytes = sum(segment.size for segment in self._segments[:-1])
        return dropped
