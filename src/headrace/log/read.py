"""Reading batches: a slice of one segment's file that a reply sends without copying it.

A slice starts with the batch that holds the offset asked for, ends where a batch ends when the bound on
offsets cuts it, and may end inside of a batch when the bound on bytes does: clients drop a cut batch. Its
first batch is always whole.
"""

from typing import TYPE_CHECKING, NamedTuple

from headrace.base.chunks import FileSlice
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.log.segment import Segment

if TYPE_CHECKING:
    from headrace.log.partition_log import PartitionLog


class ReadResult(NamedTuple):
    """`chunk` is b"" where there is nothing to read yet; every offset in it lies below `upper_offset`."""

    chunk: FileSlice | bytes
    upper_offset: int


def read(log: "PartitionLog", offset: int, max_bytes: int, max_offset: int, at_least_one: bool) -> ReadResult:
    """Batches from `offset` up to the end of its segment, `max_bytes` or `max_offset`, whichever comes first.

    With `at_least_one` a first batch above `max_bytes` comes whole, without it not at all.
    """
    end_offset = log.log_end_offset
    if not log.log_start_offset <= offset <= end_offset:
        raise ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} is not in {log.topic_partition}, {log.log_start_offset} to {end_offset}",
        )
    max_offset = min(max_offset, end_offset)
    if offset >= max_offset:
        return ReadResult(b"", offset)
    segments = log.segments
    active = segments.active
    if offset >= active.base_offset:
        return _slice(active, offset, max_bytes, max_offset, end_offset, at_least_one) or ReadResult(
            b"", offset
        )
    number = segments.number_of(offset)
    if number < 0:
        raise ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} of {log.topic_partition} left this disk, which starts at {segments.bases[0]}",
        )
    while number < len(segments):
        segment, following = segments[number], segments.base_after(number)
        upper = end_offset if following is None else following
        found = _slice(segment, offset, max_bytes, max_offset, upper, at_least_one)
        if found is not None:
            return found
        if upper >= max_offset:
            break
        number += 1  # compaction took this segment's last batches
    return ReadResult(b"", offset)


def _slice(
    segment: Segment,
    offset: int,
    max_bytes: int,
    max_offset: int,
    segment_end_offset: int,
    at_least_one: bool,
) -> ReadResult | None:
    """None where the segment has no batch at or behind `offset`."""
    position = segment.locate(offset)
    if max_offset < segment_end_offset:
        bound, upper = segment.locate(max_offset), max_offset
    else:
        bound, upper = segment.size, segment_end_offset
    size = bound - position
    if size <= 0:
        return None if position == segment.size else ReadResult(b"", offset)
    if size > max_bytes:
        first_bytes = segment.batch_size_at(position)
        if first_bytes > max_bytes and not at_least_one:
            return ReadResult(b"", offset)
        size = min(size, max(first_bytes, max_bytes))
        entry = segment.offset_index().upper_bound(position + size)
        upper = upper if entry is None else min(upper, entry)
    return ReadResult(FileSlice(segment.file, position, size), upper)


def aborted_transactions(log: "PartitionLog", first: int, upto: int) -> list[tuple[int, int]]:
    """(producer id, first offset) of aborted transactions with records in [first, upto), over segment
    borders."""
    found = []
    for segment in log.segments.from_number(log.segments.number_of(first)):
        for txn in segment.indexes.aborted():
            if txn.last_offset >= first and txn.first_offset < upto:
                found.append((txn.producer_id, txn.first_offset))
            if txn.last_stable_offset >= upto:
                return found  # all that started below `upto` was decided when this one was
    return found
