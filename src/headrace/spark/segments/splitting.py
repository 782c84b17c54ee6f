"""Cuts ranges into tasks by the bytes of their files, as Spark does with files, at segments where that fits.

A task that starts with a segment starts at its first byte. Inside of a segment, cuts lie on entries of its
index.
"""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final

from headrace.base.ids import TopicPartition
from headrace.log.offset_index import OffsetIndex
from headrace.spark.ranges import OffsetRange
from headrace.spark.segments.known_places import KnownPlaces
from headrace.spark.segments.listing import ListedSegment, number_of
from headrace.spark.segments.manifest import PartitionManifest

# As much as Spark gives a task that reads other files: half a second of work or more, beside which the tenth
# of a second that a Python task costs does not count for much.
TASK_BYTES: Final = 128 << 20


def split_by_files(
    ranges: Iterable[OffsetRange],
    manifests: Mapping[TopicPartition, PartitionManifest],
    places: KnownPlaces,
) -> list[OffsetRange]:
    """The ranges, large ones in pieces of about TASK_BYTES."""
    pieces: list[OffsetRange] = []
    for each in ranges:
        cuts = _cuts(each, manifests[each.topic_partition], places)
        bounds = [each.start, *cuts, each.end]
        pieces += [OffsetRange(each.topic, each.partition, *piece) for piece in pairwise(bounds)]
    return pieces


def _cuts(wanted: OffsetRange, manifest: PartitionManifest, places: KnownPlaces) -> list[int]:
    """Offsets inside of the range, in order, at which pieces start."""
    segments = manifest.segments
    cuts: list[int] = []
    for number in range(max(number_of(segments, wanted.start), 0), len(segments)):
        segment = segments[number]
        if segment.base_offset >= wanted.end:
            break
        cuts.append(segment.base_offset)
        pieces = max(1, round(segment.size / TASK_BYTES))
        if pieces > 1:
            cuts += _inside(places.index(manifest.folder, segment.base_offset, wanted.end), segment, pieces)
    cuts = sorted({cut for cut in cuts if wanted.start < cut < wanted.end})
    return _thinned(cuts, segments, wanted)


def _inside(index: OffsetIndex, segment: ListedSegment, pieces: int) -> list[int]:
    """Offsets that cut a segment into so many pieces of about the same size."""
    entries = (index.offset_before(segment.size * piece // pieces) for piece in range(1, pieces))
    # An entry names the last offset of a batch: the next batch starts behind it.
    return [offset + 1 for offset in entries if offset > segment.base_offset]


def _thinned(cuts: list[int], segments: tuple[ListedSegment, ...], wanted: OffsetRange) -> list[int]:
    """Without cuts between segments so small that several make one task."""
    kept: list[int] = []
    last = wanted.start
    for cut in cuts:
        if _bytes_between(segments, last, cut) >= TASK_BYTES // 2:
            kept.append(cut)
            last = cut
    return kept


def _bytes_between(segments: tuple[ListedSegment, ...], start: int, end: int) -> float:
    """About how many bytes lie between two offsets, as if each segment's were spread evenly."""
    total = 0.0
    for number in range(max(number_of(segments, start), 0), len(segments)):
        base_offset, size, _ = segments[number]
        if base_offset >= end:
            break
        is_last = number + 1 == len(segments)
        following = max(end, base_offset + 1) if is_last else segments[number + 1].base_offset
        inside = min(end, following) - max(start, base_offset)
        total += size * inside / (following - base_offset)
    return total
