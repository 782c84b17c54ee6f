"""The plain Python twins of `kernels_columns`: the same answers, slowly, from arrays of the same kinds.

They are what the compiled kernels are tested against, and what says what those do. Arrays in Arrow's layout:
a column of bytes is its values end to end, `ends` (a 0, then where each value ends) and a bitmap of which
are not null. An empty `ends` leaves a column out. Batches are rows of a table, see `Batch`.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from headrace.records.flaws import INT64_MAX, INT64_MIN, Flaw
from headrace.records.header import HEADER_BYTES
from headrace.records.kernels_plain import _fields, _number
from headrace.records.varints import encode_varint

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

BATCH_COLUMNS: Final = 7
"""What `decode_rows` is told of a batch: where its records start and end, how many there are, base offset,
base timestamp, whether the log's append time counts (0 or 1), and that time."""

MADE_COLUMNS: Final = 6
"""What `encode_rows` tells of a batch: where it starts and ends, the index of its first row in `rows`, how
many rows there are, base timestamp and greatest timestamp."""


def _append(
    ends: Ints, column: Bytes, valid: Bytes, row: int, total: int, body: bytes, at: int, size: int
) -> int:
    if size >= 0:
        column[total : total + size] = np.frombuffer(body, np.uint8, size, at) if size else 0
        total += size
        valid[row >> 3] |= 1 << (row & 7)
    ends[row + 1] = total
    return total


def _scaled(timestamp: int, scale: int) -> int:
    most = INT64_MAX // scale
    return min(max(timestamp, -most), most) * scale


def decode_rows(
    body: Bytes,
    batches: Longs,
    from_offset: int,
    scale: int,
    offsets: Longs,
    timestamps: Longs,
    timestamp_types: Ints,
    key_ends: Ints,
    key_bytes: Bytes,
    key_valid: Bytes,
    value_ends: Ints,
    value_bytes: Bytes,
    value_valid: Bytes,
    header_ends: Ints,
    headers_at: Longs,
) -> tuple[int, int, int, int]:
    """Take the records of all batches apart into columns, those before `from_offset` left out.

    Returns (flaw, number of the batch, index of the record, rows); with a flaw the columns mean nothing.
    `headers_at` is where each row's headers are, for `decode_headers`. Timestamps are multiplied by `scale`,
    and kept within 64 bits.
    """
    data = body.tobytes()
    row = keys = values = headers = 0
    for number, batch in enumerate(batches.tolist()):
        at, limit, count, base_offset, base_timestamp, by_log, append_time = batch
        for index in range(count):
            flaw, at, late, beyond, key_at, key_size, value_at, value_size, at_headers, some = _fields(
                data, at, limit
            )
            if flaw:
                return flaw, number, index, 0
            timestamp, offset = base_timestamp + late, base_offset + beyond
            if not (INT64_MIN <= timestamp <= INT64_MAX and INT64_MIN <= offset <= INT64_MAX):
                return Flaw.TIMESTAMP, number, index, 0
            if offset < from_offset:
                continue
            offsets[row] = offset
            timestamps[row] = _scaled(append_time if by_log else timestamp, scale)
            timestamp_types[row] = by_log
            if len(key_ends):
                keys = _append(key_ends, key_bytes, key_valid, row, keys, data, key_at, key_size)
            if len(value_ends):
                values = _append(
                    value_ends, value_bytes, value_valid, row, values, data, value_at, value_size
                )
            if len(header_ends):
                headers += some
                headers_at[row] = at_headers
                header_ends[row + 1] = headers
            row += 1
        if at != limit:
            return Flaw.TRAILING, number, count, 0
    return Flaw.NONE, 0, 0, row


def decode_headers(
    body: Bytes,
    headers_at: Longs,
    header_ends: Ints,
    key_ends: Ints,
    key_bytes: Bytes,
    key_valid: Bytes,
    value_ends: Ints,
    value_bytes: Bytes,
    value_valid: Bytes,
) -> None:
    """Take the headers that `decode_rows` has checked apart into columns, one row for each header."""
    data = body.tobytes()
    keys = values = 0
    for row, at in enumerate(headers_at.tolist()):
        for header in range(header_ends[row], header_ends[row + 1]):
            size, at = _number(data, at, len(data), 32)
            keys = _append(key_ends, key_bytes, key_valid, header, keys, data, at, size)
            size, at = _number(data, at + size, len(data), 32)
            values = _append(value_ends, value_bytes, value_valid, header, values, data, at, size)
            at += max(size, 0)


def encode_rows(
    rows: Longs,
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
    out: Bytes,
    batches: Longs,
) -> tuple[int, int]:
    """Write these rows as records into batches of at most `batch_bytes`, or of one record where that is more.

    Every batch has its header's place in front, for the caller to fill. A size of -1 is a null. The headers
    of a row are those from `header_ends[row]` up to `header_ends[row + 1]`; none where that is empty.
    Returns how many batches were made and how many bytes they take.
    """

    def field(data: Bytes, at: int, size: int) -> bytes:
        return encode_varint(size) + (data[at : at + size].tobytes() if size > 0 else b"")

    made: list[list[int]] = []
    at = 0
    for index, row in enumerate(rows.tolist()):
        timestamp = int(timestamps[row])
        first, last = (int(header_ends[row]), int(header_ends[row + 1])) if len(header_ends) else (0, 0)
        tail = field(keys, key_at[row], int(key_size[row])) + field(
            values, value_at[row], int(value_size[row])
        )
        tail += encode_varint(last - first)
        for header in range(first, last):
            tail += field(names, name_at[header], int(name_size[header]))
            tail += field(contents, content_at[header], int(content_size[header]))
        record = _framed(timestamp - made[-1][4], made[-1][3], tail) if made else b""
        if not made or at - made[-1][0] + len(record) > batch_bytes:
            record = _framed(0, 0, tail)
            made.append([at, at, index, 0, timestamp, timestamp])
            at += HEADER_BYTES
        out[at : at + len(record)] = np.frombuffer(record, np.uint8)
        at += len(record)
        made[-1][1] = at
        made[-1][3] += 1
        made[-1][5] = max(made[-1][5], timestamp)
    if made:
        batches[: len(made)] = made
    return len(made), at


def _framed(timestamp_delta: int, offset_delta: int, tail: bytes) -> bytes:
    record = b"\0" + encode_varint(timestamp_delta) + encode_varint(offset_delta) + tail
    return encode_varint(len(record)) + record
