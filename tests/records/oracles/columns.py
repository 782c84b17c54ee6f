"""The oracle of the kernels of columns."""

import numpy as np
from numpy.typing import NDArray

from headrace.records.kernels.notation import INT64_MAX, INT64_MIN
from headrace.records.kernels.records import RecordFlaw
from headrace.records.varints import encode_varint
from tests.records.oracles.records import _fields, _number

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]


def decode_rows(
    body: Bytes,
    batches: Longs,
    from_offset: int,
    scale: int,
    offsets: Longs,
    timestamps: Longs,
    timestamp_types: Ints,
    key_at: Longs,
    key_ends: Ints,
    key_valid: Bytes,
    value_at: Longs,
    value_ends: Ints,
    value_valid: Bytes,
    headers_at: Longs,
    header_ends: Ints,
) -> tuple[int, int, int, int]:
    """Check the records of all batches and take them apart, those before `from_offset` left out.

    Returns (flaw, number of the batch, index of the record, rows); with a flaw the columns mean nothing.
    The bytes of keys, values and headers stay where they are: `gather` and `decode_headers` fetch them.
    Timestamps are multiplied by `scale`, and kept within 64 bits.
    """
    data = body.tobytes()
    row = keys = values = headers = 0
    timestamp_max = INT64_MAX // scale
    for number, batch in enumerate(batches.tolist()):
        at, limit, count, base_offset, base_timestamp, by_log, append_time = batch
        for index in range(count):
            flaw, at, late, beyond, at_key, key_size, at_value, value_size, at_headers, some = _fields(
                data, at, limit
            )
            if flaw:
                return flaw, number, index, 0
            timestamp, offset = base_timestamp + late, base_offset + beyond
            if not (INT64_MIN <= timestamp <= INT64_MAX and INT64_MIN <= offset <= INT64_MAX):
                return RecordFlaw.TIMESTAMP, number, index, 0
            if offset < from_offset:
                continue
            timestamp = append_time if by_log else timestamp
            offsets[row] = offset
            timestamps[row] = min(max(timestamp, -timestamp_max), timestamp_max) * scale
            timestamp_types[row] = by_log
            key_at[row], value_at[row], headers_at[row] = at_key, at_value, at_headers
            key_valid[row >> 3] |= (key_size >= 0) << (row & 7)
            value_valid[row >> 3] |= (value_size >= 0) << (row & 7)
            keys += max(key_size, 0)
            values += max(value_size, 0)
            headers += some
            row += 1
            key_ends[row], value_ends[row], header_ends[row] = keys, values, headers
        if at != limit:
            return RecordFlaw.TRAILING, number, count, 0
    return RecordFlaw.NONE, 0, 0, row


def decode_headers(
    body: Bytes,
    headers_at: Longs,
    header_ends: Ints,
    key_at: Longs,
    key_ends: Ints,
    value_at: Longs,
    value_ends: Ints,
    value_valid: Bytes,
) -> tuple[int, int]:
    """Take the headers that `decode_rows` has checked apart, one row for each; returns the columns' bytes."""
    data = body.tobytes()
    keys = values = 0
    for row, at in enumerate(headers_at.tolist()):
        for header in range(header_ends[row], header_ends[row + 1]):
            size, at = _number(data, at, len(data), 32)
            keys += size
            key_at[header], key_ends[header + 1] = at, keys
            size, at = _number(data, at + size, len(data), 32)
            value_at[header] = at
            value_valid[header >> 3] |= (size >= 0) << (header & 7)
            values += max(size, 0)
            at += max(size, 0)
            value_ends[header + 1] = values
    return keys, values


def gather(body: Bytes, at: Longs, ends: Ints, column: Bytes) -> None:
    """Copy a column's values end to end."""
    for row, start in enumerate(at.tolist()):
        size = ends[row + 1] - ends[row]
        column[ends[row] : ends[row + 1]] = body[start : start + size]


def encode_rows(
    first: int,
    order: Longs,
    timestamps: Longs,
    keys: Bytes,
    key_at: Longs,
    key_size: Longs,
    values: Bytes,
    value_at: Longs,
    value_size: Longs,
    header_ends: Longs,
    names: Bytes,
    name_at: Longs,
    name_size: Longs,
    contents: Bytes,
    content_at: Longs,
    content_size: Longs,
    batch_bytes: int,
    state: Longs,
    out: Bytes,
) -> int:
    """Write rows as records into one batch, until the next one does not fit: the rows that `order` names from
    its place `first` on. Returns the place of the first that was not written.

    A batch has at most `batch_bytes`, or one record where that is more, and never more than `out` has room
    for. It goes on where `state` says (see STATE_SIZE), so a batch may be filled by several calls. A size of
    -1 is a null. The headers of a row are those from `header_ends[row]` up to `header_ends[row + 1]`; none
    where that is empty.
    """

    def field(data: Bytes, at: int, size: int) -> bytes:
        return encode_varint(size) + (data[at : at + size].tobytes() if size > 0 else b"")

    at, count, earliest, latest, _ = state.tolist()
    place = first
    for row in order[first:].tolist():
        timestamp = int(timestamps[row])
        if not count:
            earliest = latest = timestamp
        start, end = (int(header_ends[row]), int(header_ends[row + 1])) if len(header_ends) else (0, 0)
        record = b"\0" + encode_varint(timestamp - earliest) + encode_varint(count)
        record += field(keys, key_at[row], int(key_size[row]))
        record += field(values, value_at[row], int(value_size[row])) + encode_varint(end - start)
        for header in range(start, end):
            record += field(names, name_at[header], int(name_size[header]))
            record += field(contents, content_at[header], int(content_size[header]))
        record = encode_varint(len(record)) + record
        if (count and at + len(record) > batch_bytes) or at + len(record) > len(out):
            state[4] = at + len(record)
            break
        out[at : at + len(record)] = np.frombuffer(record, np.uint8)
        at += len(record)
        latest = max(latest, timestamp)
        count += 1
        place += 1
    state[:4] = at, count, earliest, latest
    return place
