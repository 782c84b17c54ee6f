"""Segments that become one: compaction makes many small segments out of large ones, and puts them together.

A group stays within `segment.bytes`, its indexes within `segment.index.bytes`, its offsets within what an
index can tell from the group's first. What it holds is known before it is cleaned, so these are upper bounds.
"""

from collections.abc import Sequence
from typing import Final

from headrace.log.offset_index import ENTRY_BYTES as INDEX_ENTRY_BYTES
from headrace.log.segment import POSITION_MAX, RELATIVE_OFFSET_MAX, Segment
from headrace.log.time_index import ENTRY_BYTES as TIME_ENTRY_BYTES
from headrace.settings.topic import TopicConfig

# Their files change names in one turn of the loop: a few milliseconds for so many.
SEGMENTS_MAX: Final = 100


def group_segments(segments: Sequence[Segment], end_offset: int, config: TopicConfig) -> list[list[Segment]]:
    """Neighbours that fit into one segment; `end_offset` is where the last of them ends."""
    groups: list[list[Segment]] = []
    ends = [segment.base_offset for segment in segments[1:]] + [end_offset]
    size = 0
    for segment, end in zip(segments, ends, strict=True):
        fits = (
            bool(groups)
            and len(groups[-1]) < SEGMENTS_MAX
            and size + segment.size <= min(config.segment_bytes, POSITION_MAX)
            and index_bytes(size + segment.size, config) <= config.segment_index_bytes
            and end - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX
        )
        if fits:
            groups[-1].append(segment)
            size += segment.size
        else:
            groups.append([segment])
            size = segment.size
    return groups


def index_bytes(segment_bytes: int, config: TopicConfig) -> int:
    """The most that an index of such a segment can take: one entry for each interval, and one to close it."""
    entries = segment_bytes // max(config.index_interval_bytes, 1) + 2
    return entries * max(INDEX_ENTRY_BYTES, TIME_ENTRY_BYTES)
