"""Ranges of offsets and windows of time: what one Spark task reads, and how large ranges are cut so that all
cores have work."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from headrace.base.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets of one partition, `end` not included."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets: at least as many as there are records."""
        return self.end - self.start

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"offsets {self.start} to {self.end} of {self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """Records of these times only, in microseconds, both ends included."""

    first_us: int
    last_us: int


def split(
    ranges: Iterable[OffsetRange],
    *,
    min_partitions: int | None = None,
    max_records: int | None = None,
) -> list[OffsetRange]:
    """The ranges that are not empty, cut to at most `max_records` offsets each, then so that there are about
    `min_partitions` of them, large ones into more pieces than small ones.
    """
    found = [each for each in ranges if each.size > 0]
    if max_records is not None:
        found = [piece for each in found for piece in _cut(each, -(-each.size // max_records))]
    if min_partitions is not None and len(found) < min_partitions:
        found = _cut_to(found, min_partitions)
    return found


def _cut_to(ranges: Sequence[OffsetRange], wanted: int) -> list[OffsetRange]:
    """Ranges smaller than an even share stay whole; the others share what is left of the count."""
    total = sum(each.size for each in ranges)
    small = [each for each in ranges if each.size * wanted <= total]
    left = total - sum(each.size for each in small)
    pieces_left = max(1, wanted - len(small))
    cut: list[OffsetRange] = []
    for each in ranges:
        if each.size * wanted <= total:
            cut.append(each)
        else:
            cut += _cut(each, min(each.size, max(1, round(pieces_left * each.size / left))))
    return cut


def _cut(whole: OffsetRange, pieces: int) -> list[OffsetRange]:
    """Pieces that differ by one offset at most."""
    bounds = [whole.start + whole.size * number // pieces for number in range(pieces + 1)]
    return [replace(whole, start=start, end=end) for start, end in pairwise(bounds)]
