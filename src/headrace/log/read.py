"""Reading a log, by offset and by time.

A read gives a slice of one segment's file, which a reply sends without copying it. It starts with the batch
that holds the offset asked for, ends where a batch ends when the bound on offsets cuts it, and may end inside
of a batch when the bound on bytes does: clients drop a cut batch. Its first batch is always whole.

By time, the first segment whose largest timestamp reaches the one asked for is searched: its time index tells
an offset before which no record is young enough, its offset index a position, and from there batches are
walked and the first that can hold the record is opened.
"""

import errno
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.base.chunks import Buffer, FileSlice
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.log.log_segment import LogSegment
from headrace.log.missing_records import check_end
from headrace.log.time_index import NO_TIMESTAMP
from headrace.records.batch import STORED_UNPACKED_BYTES_MAX, BatchHeader, records_section
from headrace.records.kernels.choice import kernels
from headrace.records.kernels.records import flaw_text

if TYPE_CHECKING:
    from headrace.log.unified_log import UnifiedLog


class FetchDataInfo(NamedTuple):
    """`chunk` is b"" where there is nothing to read yet; every offset in it lies below `upper_offset`."""

    chunk: FileSlice | bytes
    upper_offset: int


def read(
    log: "UnifiedLog", offset: int, max_bytes: int, max_offset: int, at_least_one: bool
) -> FetchDataInfo:
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
        return FetchDataInfo(b"", offset)
    segments = log.segments
    active = segments.active
    if offset >= active.base_offset:
        if active.doubt is not None:
            _look_again(log, len(segments) - 1, offset, max_bytes)
        return _slice(active, offset, max_bytes, max_offset, end_offset, at_least_one) or FetchDataInfo(
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
        if segment.doubt is not None:
            _look_again(log, number, offset, max_bytes)
        upper = end_offset if following is None else following
        try:
            found = _slice(segment, offset, max_bytes, max_offset, upper, at_least_one)
        except InvalidBytesError as error:
            if following is None or segment.file.size() >= segment.size:
                raise
            segment.doubt = OSError(errno.EIO, str(error))  # it was cut while it was open
            continue
        if found is not None:
            return found
        if upper >= max_offset:
            break
        number += 1  # compaction took this segment's last batches
    return FetchDataInfo(b"", offset)


def _look_again(log: "UnifiedLog", number: int, offset: int, max_bytes: int) -> None:
    """A reply could not be sent from this segment. OSError where its file is still not what was written; a
    closed one that was cut short ends earlier from now on.
    """
    segment = log.segments[number]
    missing_bytes = segment.size - segment.file.size()
    if missing_bytes > 0 and segment is log.segments.active:
        raise OSError(errno.EIO, f"{missing_bytes} bytes that were written are gone", segment.path)
    if missing_bytes > 0:
        segment.release()
        log.segments.inactive_bytes -= missing_bytes
        segment.size -= missing_bytes
        check_end(log, number)
    else:
        position = segment.locate(offset)
        segment.file.read(position, min(max_bytes, segment.size - position))
    segment.doubt = None


def _slice(
    segment: LogSegment,
    offset: int,
    max_bytes: int,
    max_offset: int,
    segment_end_offset: int,
    at_least_one: bool,
) -> FetchDataInfo | None:
    """None where the segment has no batch at or behind `offset`."""
    position = segment.locate(offset)
    if max_offset < segment_end_offset:
        bound, upper = segment.locate(max_offset), max_offset
    else:
        bound, upper = segment.size, segment_end_offset
    size = bound - position
    if size <= 0:
        return None if position == segment.size else FetchDataInfo(b"", offset)
    if size > max_bytes:
        first_bytes = segment.batch_size_at(position)
        if first_bytes > max_bytes and not at_least_one:
            return FetchDataInfo(b"", offset)
        size = min(size, max(first_bytes, max_bytes))
        entry = segment.offset_index().upper_bound(position + size)
        upper = upper if entry is None else min(upper, entry)
    return FetchDataInfo(FileSlice(segment.file, position, size), upper)


def aborted_transactions(log: "UnifiedLog", first: int, upto: int) -> list[tuple[int, int]]:
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


# -- by time -------------------------------------------------------------------------------------------------

INT64_MIN: Final = -(1 << 63)


class TimestampAndOffset(NamedTuple):
    """A record by its time and place; `leader_epoch` is -1 where its batch has none."""

    timestamp: int
    offset: int
    leader_epoch: int


def offset_for_timestamp(log: "UnifiedLog", timestamp: int) -> TimestampAndOffset | None:
    """The first record whose timestamp is not below `timestamp`; None where all are older."""
    for segment in log.segments:
        if segment.max_timestamp()[0] >= timestamp:
            found = _search(segment, timestamp, log.log_start_offset)
            if found is not None:
                return found
    return None


def offset_of_max_timestamp(log: "UnifiedLog") -> TimestampAndOffset | None:
    """The first record with the log's largest timestamp; None where no record has one."""
    segment = max(log.segments, key=lambda s: s.max_timestamp()[0])
    timestamp, batch_offset = segment.max_timestamp()
    if timestamp < 0:
        return None
    for at, header in segment.headers(segment.locate(batch_offset)):
        if header.max_timestamp == timestamp:
            if not header.record_count:
                return _youngest_record(log)
            return _first_record(segment, at, header, timestamp, log.log_start_offset)
    return None


def _youngest_record(log: "UnifiedLog") -> TimestampAndOffset | None:
    """The same where compaction left nothing but the header of the batch with the largest timestamp."""
    found: TimestampAndOffset | None = None
    for segment in log.segments:
        for at, header in segment.headers():
            is_younger = header.max_timestamp > (NO_TIMESTAMP if found is None else found.timestamp)
            if is_younger and header.record_count:
                first = _first_record(segment, at, header, header.max_timestamp, log.log_start_offset)
                found = first or found
    return found


def _search(segment: LogSegment, timestamp: int, start_offset: int) -> TimestampAndOffset | None:
    offset = max(segment.search_from(timestamp), start_offset)
    for at, header in segment.headers(segment.locate(offset)):
        if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
            found = _first_record(segment, at, header, timestamp, start_offset)
            if found is not None:
                return found
    return None


def _first_record(
    segment: LogSegment, position: int, header: BatchHeader, timestamp: int, start_offset: int
) -> TimestampAndOffset | None:
    batch = segment.file.read(position, header.size)
    try:
        return first_record(batch, header, timestamp, start_offset)
    except InvalidBytesError as error:
        raise InvalidBytesError(f"the batch at byte {position} of {segment.path}: {error}") from error


def first_record(
    batch: Buffer, header: BatchHeader, timestamp: int, start_offset: int
) -> TimestampAndOffset | None:
    """The first record of a batch that is young enough and not below the log's start."""
    body = records_section(batch, header, limit_bytes=STORED_UNPACKED_BYTES_MAX)
    # Under append time every record has the batch's timestamp, whatever its producer wrote into it.
    wanted = INT64_MIN if header.log_append_time else timestamp
    flaw, index, delta, found, _ = kernels.find_record(
        body, header.record_count, header.base_timestamp, wanted, max(start_offset - header.base_offset, 0)
    )
    if flaw:
        raise InvalidBytesError(flaw_text(flaw, index))
    if delta < 0:
        return None
    if header.log_append_time:
        found = header.max_timestamp
    return TimestampAndOffset(found, header.base_offset + delta, header.leader_epoch)
