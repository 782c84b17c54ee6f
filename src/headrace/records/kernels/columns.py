"""The kernels between records and Arrow columns.

They are only ever compiled: no broker needs them, and who does waits for numba. They write into arrays that
the caller made, whose sizes are checked there; every length that comes from the bytes is checked here before
anything is read or copied.

Arrays are in Arrow's layout: a column of bytes is its values end to end, `ends` (a 0, then where each value
ends) and a bitmap of which are not null. Batches are rows of a table.
"""

from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from headrace.records.kernels.machine import copy as _copy
from headrace.records.kernels.machine import kernel

types: Any = numba.types
_int64 = cast(Callable[[Any], int], np.int64)

_P = ParamSpec("_P")
_R = TypeVar("_R")

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Record = tuple[int, int, int, int, int, int, int, int, int, int]

_I64: Final = types.int64
_READ: Final = types.Array(types.uint8, 1, "C", readonly=True)
_BYTES: Final = types.Array(types.uint8, 1, "C")
_INTS: Final = types.Array(types.int32, 1, "C")
_LONGS: Final = types.Array(types.int64, 1, "C")
_ROWS: Final = types.Array(types.int64, 1, "C", readonly=True)
_TABLE: Final = types.Array(types.int64, 2, "C")

# `RecordFlaw` as plain numbers: constants cost nothing.
_CUT_OFF, _SIZE, _NUMBER, _TIMESTAMP, _KEY_SIZE, _VALUE_SIZE = 1, 2, 3, 4, 6, 7
_HEADER_COUNT, _HEADER_KEY_SIZE, _HEADER_VALUE_SIZE, _RECORD_END, _TRAILING = 8, 9, 10, 11, 12
_INT64_MAX: Final = 2**63 - 1


def inlined(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Make it a part of the kernels that call it: as a call it would cost a quarter of decoding a record."""
    return cast(Callable[_P, _R], numba.njit(inline="always")(function))


@kernel(types.UniTuple(_I64, 2)(_READ, _I64, _I64, _I64))
def _number(body: Bytes, at: int, end: int, bits: int) -> tuple[int, int]:
    if at >= end:
        return 0, -1
    byte = _int64(body[at])
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), at + 1
    folded = byte & 127
    shift = 7
    while True:
        at += 1
        if at >= end:
            return 0, -1
        byte = _int64(body[at])
        folded |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift >= bits:
            return 0, -2
    if bits == 32:
        folded &= 0xFFFFFFFF
    return ((folded >> 1) & _INT64_MAX) ^ -(folded & 1), at + 1


@kernel(_I64(_READ, _I64, _I64, _I64))
def _check_headers(body: Bytes, at: int, end: int, count: int) -> int:
    for _ in range(count):
        size, at = _number(body, at, end, 32)
        if at < 0:
            return _NUMBER
        if size < 0 or size > end - at:
            return _HEADER_KEY_SIZE
        size, at = _number(body, at + size, end, 32)
        if at < 0:
            return _NUMBER
        if size < -1 or size > end - at:
            return _HEADER_VALUE_SIZE
        at += max(size, 0)
    return 0 if at == end else _RECORD_END


@kernel(types.boolean(_I64, _I64, _I64))
def _overflows(a: int, b: int, total: int) -> bool:
    return ((a ^ total) & (b ^ total)) < 0


@inlined
def _flawed(flaw: int) -> Record:
    return flaw, 0, 0, 0, 0, 0, 0, 0, 0, 0


@inlined
def _record(body: Bytes, at: int, limit: int) -> Record:
    size, at = _number(body, at, limit, 32)
    if at < 0:
        return _flawed(_CUT_OFF if at == -1 else _SIZE)
    if size < 0:
        return _flawed(_SIZE)
    end = at + size
    if end > limit:
        return _flawed(_CUT_OFF)
    timestamp_delta, at = _number(body, at + 1, end, 64)
    if at < 0:
        return _flawed(_NUMBER)
    offset_delta, at = _number(body, at, end, 32)
    if at < 0:
        return _flawed(_NUMBER)
    key_size, key_at = _number(body, at, end, 32)
    if key_at < 0:
        return _flawed(_NUMBER)
    if key_size < -1 or key_size > end - key_at:
        return _flawed(_KEY_SIZE)
    value_size, value_at = _number(body, key_at + max(key_size, 0), end, 32)
    if value_at < 0:
        return _flawed(_NUMBER)
    if value_size < -1 or value_size > end - value_at:
        return _flawed(_VALUE_SIZE)
    count, headers_at = _number(body, value_at + max(value_size, 0), end, 32)
    if headers_at < 0:
        return _flawed(_NUMBER)
    if count < 0 or count > end - headers_at:
        return _flawed(_HEADER_COUNT)
    if count:
        flaw = _check_headers(body, headers_at, end, count)
        if flaw:
            return _flawed(flaw)
    elif headers_at != end:
        return _flawed(_RECORD_END)
    return 0, end, timestamp_delta, offset_delta, key_at, key_size, value_at, value_size, headers_at, count


@kernel(
    types.UniTuple(_I64, 4)(
        *(_READ, _TABLE, _I64, _I64, _LONGS, _LONGS, _INTS),
        *(_LONGS, _INTS, _BYTES, _LONGS, _INTS, _BYTES, _LONGS, _INTS),
    )
)
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
    row, keys, values, headers = 0, 0, 0, 0
    timestamp_max = _INT64_MAX // scale
    for number in range(batches.shape[0]):
        at, limit, count = batches[number, 0], batches[number, 1], batches[number, 2]
        base_offset, base_timestamp = batches[number, 3], batches[number, 4]
        by_log, append_time = batches[number, 5], batches[number, 6]
        for index in range(count):
            flaw, at, late, beyond, at_key, key_size, at_value, value_size, at_headers, some = _record(
                body, at, limit
            )
            if flaw:
                return flaw, number, index, 0
            timestamp, offset = base_timestamp + late, base_offset + beyond
            if _overflows(base_timestamp, late, timestamp) or _overflows(base_offset, beyond, offset):
                return _TIMESTAMP, number, index, 0
            if offset < from_offset:
                continue
            if by_log:
                timestamp = append_time
            offsets[row] = offset
            timestamps[row] = min(max(timestamp, -timestamp_max), timestamp_max) * scale
            timestamp_types[row] = by_log
            key_at[row], value_at[row], headers_at[row] = at_key, at_value, at_headers
            if key_size >= 0:
                keys += key_size
                key_valid[row >> 3] |= 1 << (row & 7)
            if value_size >= 0:
                values += value_size
                value_valid[row >> 3] |= 1 << (row & 7)
            headers += some
            row += 1
            key_ends[row], value_ends[row], header_ends[row] = keys, values, headers
        if at != limit:
            return _TRAILING, number, count, 0
    return 0, 0, 0, row


@kernel(types.UniTuple(_I64, 2)(_READ, _LONGS, _INTS, _LONGS, _INTS, _LONGS, _INTS, _BYTES))
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
    keys, values = 0, 0
    for row in range(headers_at.shape[0]):
        at = headers_at[row]
        for header in range(header_ends[row], header_ends[row + 1]):
            size, at = _number(body, at, body.shape[0], 32)
            keys += size
            key_at[header], key_ends[header + 1] = at, keys
            size, at = _number(body, at + size, body.shape[0], 32)
            value_at[header] = at
            if size >= 0:
                values += size
                at += size
                value_valid[header >> 3] |= 1 << (header & 7)
            value_ends[header + 1] = values
    return keys, values


@kernel(types.void(_READ, _LONGS, _INTS, _BYTES))
def gather(body: Bytes, at: Longs, ends: Ints, column: Bytes) -> None:
    """Copy a column's values end to end."""
    for row in range(at.shape[0]):
        start = ends[row]
        _copy(column, start, body, at[row], ends[row + 1] - start)


@kernel(_I64(_I64))
def _width(number: int) -> int:
    """Bytes of a zigzag varint."""
    folded = (number << 1) ^ (number >> 63)
    if 0 <= folded < 128:
        return 1
    width = 1
    folded = (folded >> 7) & (_INT64_MAX >> 6)
    while folded:
        width += 1
        folded >>= 7
    return width


@kernel(_I64(_BYTES, _I64, _I64))
def _put(out: Bytes, at: int, number: int) -> int:
    """Write a zigzag varint; returns where it ends."""
    folded = (number << 1) ^ (number >> 63)
    if 0 <= folded < 128:
        out[at] = folded
        return at + 1
    out[at] = (folded & 127) | 128
    at += 1
    folded = (folded >> 7) & (_INT64_MAX >> 6)
    while folded > 127:
        out[at] = (folded & 127) | 128
        at += 1
        folded >>= 7
    out[at] = folded
    return at + 1


@kernel(_I64(_BYTES, _I64, _READ, _I64, _I64))
def _put_bytes(out: Bytes, at: int, data: Bytes, start: int, size: int) -> int:
    at = _put(out, at, size)
    if size <= 0:
        return at
    _copy(out, at, data, start, size)
    return at + size


@kernel(_I64(_ROWS, _ROWS, _I64, _I64))
def _headers_size(name_size: Longs, content_size: Longs, first: int, last: int) -> int:
    size = _width(last - first)
    for header in range(first, last):
        name, content = name_size[header], content_size[header]
        size += _width(name) + name + _width(content) + max(content, 0)
    return size


@kernel(
    _I64(
        *(_I64, _ROWS, _ROWS, _READ, _ROWS, _ROWS, _READ, _ROWS, _ROWS),
        *(_ROWS, _READ, _ROWS, _ROWS, _READ, _ROWS, _ROWS, _I64, _LONGS, _BYTES),
    )
)
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
    at, count, earliest, latest = state[0], state[1], state[2], state[3]
    place, headers = first, header_ends.shape[0]
    while place < order.shape[0]:
        row = order[place]
        timestamp, key, value = timestamps[row], key_size[row], value_size[row]
        if count == 0:
            earliest, latest = timestamp, timestamp
        late = timestamp - earliest
        size = 1 + _width(late) + _width(count) + _width(key) + max(key, 0) + _width(value) + max(value, 0)
        size += (
            _headers_size(name_size, content_size, header_ends[row], header_ends[row + 1]) if headers else 1
        )
        end = at + _width(size) + size
        if (count and end > batch_bytes) or end > out.shape[0]:
            state[4] = end
            break
        at = _put(out, at, size)
        out[at] = 0
        at = _put(out, at + 1, late)
        at = _put(out, at, count)
        at = _put_bytes(out, at, keys, key_at[row], key)
        at = _put_bytes(out, at, values, value_at[row], value)
        if headers:
            at = _put(out, at, header_ends[row + 1] - header_ends[row])
            for header in range(header_ends[row], header_ends[row + 1]):
                at = _put_bytes(out, at, names, name_at[header], name_size[header])
                at = _put_bytes(out, at, contents, content_at[header], content_size[header])
        else:
            out[at] = 0
            at += 1
        latest = max(latest, timestamp)
        count += 1
        place += 1
    state[0], state[1], state[2], state[3] = at, count, earliest, latest
    return place
