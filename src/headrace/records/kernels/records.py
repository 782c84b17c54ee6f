"""The records of a section: checked, found, taken apart.

A records section is walked record by record; the first flaw ends the walk. `find_record` and `fill_spans`
take gaps between offsets, which compaction leaves; `scan_records` is for what producers send and takes none.
Kernels answer in plain tuples, because making anything richer costs more than walking a small batch.
"""

from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from headrace.records.kernels.notation import INT64_MAX, INT64_MIN, Bytes, Cells, kernel


class RecordFlaw(IntEnum):
    """What is wrong with a record."""

    NONE = 0
    CUT_OFF = 1  # the section ends inside the record, or before there are as many as were counted
    SIZE = 2  # the record's size is negative or no number
    NUMBER = 3  # a number inside the record runs past its end or its width
    TIMESTAMP = 4  # base timestamp and delta leave 64 bits
    OFFSET_DELTA = 5  # not the record's index
    KEY_SIZE = 6
    VALUE_SIZE = 7
    HEADER_COUNT = 8
    HEADER_KEY_SIZE = 9
    HEADER_VALUE_SIZE = 10
    RECORD_END = 11  # the fields end before the record does
    TRAILING = 12  # bytes behind the last record


FLAW_TEXT: Final = {
    RecordFlaw.CUT_OFF: "the batch ends before it does",
    RecordFlaw.SIZE: "its size is not a size",
    RecordFlaw.NUMBER: "a number in it does not end",
    RecordFlaw.TIMESTAMP: "its timestamp does not fit 64 bits",
    RecordFlaw.OFFSET_DELTA: "its offset delta is not its index",
    RecordFlaw.KEY_SIZE: "its key does not fit",
    RecordFlaw.VALUE_SIZE: "its value does not fit",
    RecordFlaw.HEADER_COUNT: "its headers do not fit",
    RecordFlaw.HEADER_KEY_SIZE: "a header's key is missing or does not fit",
    RecordFlaw.HEADER_VALUE_SIZE: "a header's value does not fit",
    RecordFlaw.RECORD_END: "its fields end before it does",
    RecordFlaw.TRAILING: "bytes follow the last record",
}


def flaw_text(flaw: int, index: int) -> str:
    """The sentence for a person."""
    return f"record {index} of the batch: {FLAW_TEXT[RecordFlaw(flaw)]}"


Scan: TypeAlias = tuple[int, int, int, int, int, int]
"""(flaw, index, max_timestamp, max_index, min_timestamp, null_keys), the answer of `scan_records`.

With a flaw, only its index means anything. `max_timestamp`, and `max_index`, the first record that has it,
are -1 where no timestamp is above -1. `min_timestamp` leaves out records without one (-1) and is INT64_MAX
where none has one.
"""

Found: TypeAlias = tuple[int, int, int, int, int]
"""(flaw, index, offset_delta, timestamp, position), the answer of `find_record`; index is -1 for none."""


class RecordSpans(NamedTuple):
    """Where each record's parts are in its section, in columns of int64 that numpy takes without a copy.

    A size of -1 is a null. `headers_at` is behind the count of headers.
    """

    offsets: memoryview
    timestamps: memoryview
    key_at: memoryview
    key_size: memoryview
    value_at: memoryview
    value_size: memoryview
    headers_at: memoryview
    header_count: memoryview


SPAN_COLUMNS: Final = len(RecordSpans._fields)


def span_columns(block: memoryview, count: int) -> RecordSpans:
    """A block of eight numbers for each record, seen as columns."""
    return RecordSpans._make(block[at * count : (at + 1) * count] for at in range(SPAN_COLUMNS))


Fields: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int]
"""(flaw, end, timestamp_delta, offset_delta, key_at, key_size, value_at, value_size, headers_at, count)"""

# `RecordFlaw` as plain numbers: constants cost nothing.
_CUT_OFF, _SIZE, _NUMBER, _TIMESTAMP, _OFFSET_DELTA, _KEY_SIZE, _VALUE_SIZE = 1, 2, 3, 4, 5, 6, 7
_HEADER_COUNT, _HEADER_KEY_SIZE, _HEADER_VALUE_SIZE, _RECORD_END, _TRAILING = 8, 9, 10, 11, 12


@kernel
def read_number(body: Bytes, at: int, end: int, bits: int) -> tuple[int, int]:
    """A zigzag varint and where it ends; -1 for that where it is cut off, -2 where it is too long."""
    if at >= end:
        return 0, -1
    byte = body[at]
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), at + 1
    folded = byte & 127
    shift = 7
    while True:
        at += 1
        if at >= end:
            return 0, -1
        byte = body[at]
        folded |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift >= bits:
            return 0, -2
    if bits == 32:
        folded &= 0xFFFFFFFF
    return ((folded >> 1) & INT64_MAX) ^ -(folded & 1), at + 1


@kernel
def _check_headers(body: Bytes, at: int, end: int, count: int) -> int:
    for _ in range(count):
        size, at = read_number(body, at, end, 32)
        if at < 0:
            return _NUMBER
        if size < 0 or size > end - at:
            return _HEADER_KEY_SIZE
        size, at = read_number(body, at + size, end, 32)
        if at < 0:
            return _NUMBER
        if size < -1 or size > end - at:
            return _HEADER_VALUE_SIZE
        at += max(size, 0)
    return 0 if at == end else _RECORD_END


@kernel
def _flawed(flaw: int) -> Fields:
    return flaw, 0, 0, 0, 0, 0, 0, 0, 0, 0


@kernel
def read_fields(body: Bytes, at: int, limit: int) -> Fields:
    """One record, taken apart and checked to its last header."""
    size, at = read_number(body, at, limit, 32)
    if at < 0:
        return _flawed(_CUT_OFF if at == -1 else _SIZE)
    if size < 0:
        return _flawed(_SIZE)
    end = at + size
    if end > limit:
        return _flawed(_CUT_OFF)
    timestamp_delta, at = read_number(body, at + 1, end, 64)
    if at < 0:
        return _flawed(_NUMBER)
    offset_delta, at = read_number(body, at, end, 32)
    if at < 0:
        return _flawed(_NUMBER)
    key_size, key_at = read_number(body, at, end, 32)
    if key_at < 0:
        return _flawed(_NUMBER)
    if key_size < -1 or key_size > end - key_at:
        return _flawed(_KEY_SIZE)
    value_size, value_at = read_number(body, key_at + max(key_size, 0), end, 32)
    if value_at < 0:
        return _flawed(_NUMBER)
    if value_size < -1 or value_size > end - value_at:
        return _flawed(_VALUE_SIZE)
    count, headers_at = read_number(body, value_at + max(value_size, 0), end, 32)
    if headers_at < 0:
        return _flawed(_NUMBER)
    if count < 0 or count > end - headers_at:
        return _flawed(_HEADER_COUNT)
    flaw = _check_headers(body, headers_at, end, count)
    if flaw:
        return _flawed(flaw)
    return 0, end, timestamp_delta, offset_delta, key_at, key_size, value_at, value_size, headers_at, count


@kernel
def is_beyond(base: int, delta: int) -> bool:
    """Whether their sum leaves 64 bits."""
    return base > INT64_MAX - delta if delta > 0 else base < INT64_MIN - delta


@kernel
def _usual(body: Bytes, at: int, limit: int) -> tuple[int, int, int, int]:
    """A good record without headers, whose numbers take one or two bytes and its key's size one: its end, its
    deltas and its key's size. An end of -1: it is for `read_fields`, which takes three times as long, to say
    what it is.
    """
    if limit - at < 10:
        return -1, 0, 0, 0
    size = body[at]
    high = 0  # has bit 7 where a number goes on behind its second byte
    if size > 127:
        at += 1
        high = body[at]
        size = (size & 127) | (high << 7)
    end = at + 1 + (size >> 1)
    at += 2  # attributes
    timestamp_delta = body[at]
    if timestamp_delta > 127:
        at += 1
        byte = body[at]
        high |= byte
        timestamp_delta = (timestamp_delta & 127) | (byte << 7)
    offset_delta = body[at + 1]
    if offset_delta > 127:
        at += 1
        byte = body[at + 1]
        high |= byte
        offset_delta = (offset_delta & 127) | (byte << 7)
    key_size = body[at + 2]
    negative = size | offset_delta
    if key_size != 1:  # a null is usual
        high |= key_size
        negative |= key_size
        at += key_size >> 1
    at += 3
    if high > 127 or limit - at < 3:
        return -1, 0, 0, 0
    value_size = body[at]
    if value_size > 127:
        at += 1
        byte = body[at]
        high |= byte
        value_size = (value_size & 127) | (byte << 7)
    negative |= value_size
    at += 1 + (value_size >> 1)
    if high > 127 or negative & 1 or at + 1 != end or end > limit or body[at] != 0:
        return -1, 0, 0, 0
    delta = (timestamp_delta >> 1) ^ -(timestamp_delta & 1)
    return end, delta, offset_delta >> 1, -1 if key_size == 1 else key_size >> 1


@kernel
def scan_records(body: Bytes, count: int, base_timestamp: int) -> Scan:
    """Check a producer's `count` records to the last byte, and learn what their batch's header should say."""
    limit = len(body)
    at = 0
    null_keys = 0
    max_timestamp = -1
    max_index = -1
    min_timestamp = INT64_MAX
    for index in range(count):
        end, timestamp_delta, offset_delta, key_size = _usual(body, at, limit)
        if end < 0:
            flaw, end, timestamp_delta, offset_delta, _, key_size, _, _, _, _ = read_fields(body, at, limit)
            if flaw:
                return flaw, index, -1, -1, -1, 0
        at = end
        if offset_delta != index:
            return _OFFSET_DELTA, index, -1, -1, -1, 0
        if is_beyond(base_timestamp, timestamp_delta):
            return _TIMESTAMP, index, -1, -1, -1, 0
        timestamp = base_timestamp + timestamp_delta
        if timestamp > max_timestamp:
            max_timestamp = timestamp
            max_index = index
        if timestamp < min_timestamp and timestamp != -1:
            min_timestamp = timestamp
        if key_size < 0:
            null_keys += 1
    if at != limit:
        return _TRAILING, count, -1, -1, -1, 0
    return 0, count, max_timestamp, max_index, min_timestamp, null_keys


@kernel
def find_record(
    body: Bytes, count: int, base_timestamp: int, timestamp_min: int, offset_delta_min: int
) -> Found:
    """The first record that is neither before `timestamp_min` nor before `offset_delta_min`."""
    at = 0
    for index in range(count):
        position = at
        flaw, at, timestamp_delta, offset_delta, _, _, _, _, _, _ = read_fields(body, at, len(body))
        if flaw:
            return flaw, index, -1, -1, -1
        if is_beyond(base_timestamp, timestamp_delta):
            return _TIMESTAMP, index, -1, -1, -1
        timestamp = base_timestamp + timestamp_delta
        if timestamp >= timestamp_min and offset_delta >= offset_delta_min:
            return 0, index, offset_delta, timestamp, position
    return 0, -1, -1, -1, -1


@kernel
def fill_spans(
    body: Bytes, count: int, base_offset: int, base_timestamp: int, columns: Cells
) -> tuple[int, int]:
    """Write where every part of every record is into the columns, see `RecordSpans`; (flaw, index)."""
    at = 0
    for index in range(count):
        found = read_fields(body, at, len(body))
        flaw, at, timestamp_delta, offset_delta, key_at, key_size, value_at, value_size, headers_at, some = (
            found
        )
        if flaw:
            return flaw, index
        if is_beyond(base_timestamp, timestamp_delta) or is_beyond(base_offset, offset_delta):
            return _TIMESTAMP, index
        columns[index] = base_offset + offset_delta
        columns[count + index] = base_timestamp + timestamp_delta
        columns[2 * count + index] = key_at
        columns[3 * count + index] = key_size
        columns[4 * count + index] = value_at
        columns[5 * count + index] = value_size
        columns[6 * count + index] = headers_at
        columns[7 * count + index] = some
    return (0 if at == len(body) else _TRAILING), count
