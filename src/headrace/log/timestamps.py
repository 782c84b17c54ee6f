"""Finding offsets by time.

The first segment whose largest timestamp reaches the one asked for is searched: its time index tells an
offset before which no record is young enough, its offset index a position, and from there batches are walked
and the first that can hold the record is opened.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.base.chunks import Buffer
from headrace.base.errors import InvalidBytesError
from headrace.log.segment import Segment
from headrace.log.time_index import NO_TIMESTAMP
from headrace.records.batch import UNPACKED_BYTES_MAX, BatchHeader, records_section
from headrace.records.flaws import flaw_text
from headrace.records.kernel_choice import kernels

if TYPE_CHECKING:
    from headrace.log.partition_log import PartitionLog


INT64_MIN: Final = -(1 << 63)


class TimestampOffset(NamedTuple):
    """A record by its time and place; `leader_epoch` is -1 where its batch has none."""

    timestamp: int
    offset: int
    leader_epoch: int


def offset_for_timestamp(log: "PartitionLog", timestamp: int) -> TimestampOffset | None:
    """The first record whose timestamp is not below `timestamp`; None where all are older."""
    for segment in log.segments:
        if segment.max_timestamp()[0] >= timestamp:
            found = _search(segment, timestamp, log.log_start_offset)
            if found is not None:
                return found
    return None


def offset_of_max_timestamp(log: "PartitionLog") -> TimestampOffset | None:
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


def _youngest_record(log: "PartitionLog") -> TimestampOffset | None:
    """The same where compaction left nothing but the header of the batch with the largest timestamp."""
    found: TimestampOffset | None = None
    for segment in log.segments:
        for at, header in segment.headers():
            is_younger = header.max_timestamp > (NO_TIMESTAMP if found is None else found.timestamp)
            if is_younger and header.record_count:
                first = _first_record(segment, at, header, header.max_timestamp, log.log_start_offset)
                found = first or found
    return found


def _search(segment: Segment, timestamp: int, start_offset: int) -> TimestampOffset | None:
    offset = max(segment.search_from(timestamp), start_offset)
    for at, header in segment.headers(segment.locate(offset)):
        if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
            found = _first_record(segment, at, header, timestamp, start_offset)
            if found is not None:
                return found
    return None


def _first_record(
    segment: Segment, position: int, header: BatchHeader, timestamp: int, start_offset: int
) -> TimestampOffset | None:
    batch = segment.file.read(position, header.size)
    try:
        return first_record(batch, header, timestamp, start_offset)
    except InvalidBytesError as error:
        raise InvalidBytesError(f"the batch at byte {position} of {segment.path}: {error}") from error


def first_record(
    batch: Buffer, header: BatchHeader, timestamp: int, start_offset: int
) -> TimestampOffset | None:
    """The first record of a batch that is young enough and not below the log's start."""
    body = records_section(batch, header, limit_bytes=UNPACKED_BYTES_MAX)
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
    return TimestampOffset(found, header.base_offset + delta, header.leader_epoch)
