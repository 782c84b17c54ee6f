"""The kernels that walk records at native speed, compiled by numba.

Each has a twin of the same name in `kernels_plain`, which says what it answers. All take read-only bytes,
release the GIL and are compiled for explicit signatures, so that importing this module either loads them
from numba's cache or compiles them once; a call makes nothing but its answer. The cache lies in this
package's `__pycache__`, or where that cannot be written in the user's cache folder (NUMBA_CACHE_DIR
overrides both).

Numbers are int64 throughout: numba turns a mix of signed and unsigned 64-bit numbers into floats.
"""
# Kernels stay in one file: numba's cache sees that a file has changed, not that what it calls elsewhere has.

from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

types: Any = numba.types
_int64 = cast(Callable[[Any], int], np.int64)

_P = ParamSpec("_P")
_R = TypeVar("_R")

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]
Fields = tuple[int, int, int, int, int, int, int, int, int, int]

_I64: Final = types.int64
_BYTES: Final = types.Array(types.uint8, 1, "C", readonly=True)
_COLUMNS: Final = types.Array(types.int64, 2, "C")

# `Flaw` as plain numbers: numba's cache does not look into other modules.
_CUT_OFF, _SIZE, _NUMBER, _TIMESTAMP, _OFFSET_DELTA, _KEY_SIZE, _VALUE_SIZE = 1, 2, 3, 4, 5, 6, 7
_HEADER_COUNT, _HEADER_KEY_SIZE, _HEADER_VALUE_SIZE, _RECORD_END, _TRAILING = 8, 9, 10, 11, 12
_INT64_MAX: Final = 2**63 - 1


def kernel(signature: Any) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Compile for this signature, or load what was compiled before."""
    return cast(Callable[[Callable[_P, _R]], Callable[_P, _R]], numba.njit(signature, cache=True, nogil=True))


@kernel(types.UniTuple(_I64, 2)(_BYTES, _I64, _I64, _I64))
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


@kernel(_I64(_BYTES, _I64, _I64, _I64))
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


@kernel(types.UniTuple(_I64, 10)(_I64))
def _flawed(flaw: int) -> Fields:
    return flaw, 0, 0, 0, 0, 0, 0, 0, 0, 0


@kernel(types.UniTuple(_I64, 10)(_BYTES, _I64, _I64))
def _fields(body: Bytes, at: int, limit: int) -> Fields:
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
    flaw = _check_headers(body, headers_at, end, count)
    if flaw:
        return _flawed(flaw)
    return 0, end, timestamp_delta, offset_delta, key_at, key_size, value_at, value_size, headers_at, count


@kernel(types.boolean(_I64, _I64, _I64))
def _overflows(a: int, b: int, total: int) -> bool:
    return ((a ^ total) & (b ^ total)) < 0


@kernel(types.UniTuple(_I64, 4)(_BYTES, _I64, _I64))
def _usual(body: Bytes, at: int, limit: int) -> tuple[int, int, int, int]:
    """A good record without headers, whose numbers take one or two bytes and its key's size one: its end, its
    deltas and its key's size. An end of -1: it is for `_fields`, which takes three times as long, to say
    what it is.
    """
    if limit - at < 10:
        return -1, 0, 0, 0
    size = _int64(body[at])
    high = 0  # has bit 7 where a number goes on behind its second byte
    if size > 127:
        at += 1
        high = _int64(body[at])
        size = (size & 127) | (high << 7)
    end = at + 1 + (size >> 1)
    at += 2  # attributes
    timestamp_delta = _int64(body[at])
    if timestamp_delta > 127:
        at += 1
        byte = _int64(body[at])
        high |= byte
        timestamp_delta = (timestamp_delta & 127) | (byte << 7)
    offset_delta = _int64(body[at + 1])
    if offset_delta > 127:
        at += 1
        byte = _int64(body[at + 1])
        high |= byte
        offset_delta = (offset_delta & 127) | (byte << 7)
    key_size = _int64(body[at + 2])
    negative = size | offset_delta
    if key_size != 1:  # a null is usual
        high |= key_size
        negative |= key_size
        at += key_size >> 1
    at += 3
    if high > 127 or limit - at < 3:
        return -1, 0, 0, 0
    value_size = _int64(body[at])
    if value_size > 127:
        at += 1
        byte = _int64(body[at])
        high |= byte
        value_size = (value_size & 127) | (byte << 7)
    negative |= value_size
    at += 1 + (value_size >> 1)
    if high > 127 or negative & 1 or at + 1 != end or end > limit or body[at] != 0:
        return -1, 0, 0, 0
    delta = (timestamp_delta >> 1) ^ -(timestamp_delta & 1)
    return end, delta, offset_delta >> 1, -1 if key_size == 1 else key_size >> 1


@kernel(types.UniTuple(_I64, 6)(_BYTES, _I64, _I64))
def scan_records(body: Bytes, count: int, base_timestamp: int) -> tuple[int, int, int, int, int, int]:
    limit = body.shape[0]
    at = 0
    null_keys = 0
    max_timestamp = -1
    max_index = -1
    min_timestamp = _INT64_MAX
    for index in range(count):
        end, timestamp_delta, offset_delta, key_size = _usual(body, at, limit)
        if end < 0:
            flaw, end, timestamp_delta, offset_delta, _, key_size, _, _, _, _ = _fields(body, at, limit)
            if flaw:
                return flaw, index, -1, -1, -1, 0
        at = end
        if offset_delta != index:
            return _OFFSET_DELTA, index, -1, -1, -1, 0
        timestamp = base_timestamp + timestamp_delta
        if _overflows(base_timestamp, timestamp_delta, timestamp):
            return _TIMESTAMP, index, -1, -1, -1, 0
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


@kernel(types.UniTuple(_I64, 5)(_BYTES, _I64, _I64, _I64, _I64))
def find_record(
    body: Bytes, count: int, base_timestamp: int, timestamp_min: int, offset_delta_min: int
) -> tuple[int, int, int, int, int]:
    at = 0
    for index in range(count):
        position = at
        flaw, at, timestamp_delta, offset_delta, _, _, _, _, _, _ = _fields(body, at, body.shape[0])
        if flaw:
            return flaw, index, -1, -1, -1
        timestamp = base_timestamp + timestamp_delta
        if _overflows(base_timestamp, timestamp_delta, timestamp):
            return _TIMESTAMP, index, -1, -1, -1
        if timestamp >= timestamp_min and offset_delta >= offset_delta_min:
            return 0, index, offset_delta, timestamp, position
    return 0, -1, -1, -1, -1


@kernel(types.UniTuple(_I64, 2)(_BYTES, _I64, _I64, _I64, _COLUMNS))
def fill_spans(
    body: Bytes, count: int, base_offset: int, base_timestamp: int, columns: Numbers
) -> tuple[int, int]:
    at = 0
    for index in range(count):
        flaw, at, timestamp_delta, offset_delta, a, b, c, d, e, f = _fields(body, at, body.shape[0])
        if flaw:
            return flaw, index
        timestamp = base_timestamp + timestamp_delta
        offset = base_offset + offset_delta
        if _overflows(base_timestamp, timestamp_delta, timestamp) or _overflows(
            base_offset, offset_delta, offset
        ):
            return _TIMESTAMP, index
        columns[0, index] = offset
        columns[1, index] = timestamp
        columns[2, index] = a
        columns[3, index] = b
        columns[4, index] = c
        columns[5, index] = d
        columns[6, index] = e
        columns[7, index] = f
    return (0 if at == body.shape[0] else _TRAILING), count


@kernel(_I64(_BYTES, _I64, _I64))
def _signed(data: Bytes, at: int, size: int) -> int:
    """A big-endian number."""
    number = _int64(data[at])
    number -= (number & 128) << 1
    for index in range(1, size):
        number = (number << 8) | _int64(data[at + index])
    return number


@kernel(types.UniTuple(_I64, 2)(_BYTES, _I64, _I64))
def _compact(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """An unsigned varint of up to 32 bits in its shortest form, and where it ends; -1 for that otherwise."""
    number = 0
    shift = 0
    while at < end and shift < 35:
        byte = _int64(data[at])
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at if (byte or not shift) and number <= 0x7FFFFFFF else -1
        shift += 7
    return 0, -1


@kernel(types.boolean(_BYTES, _I64, _I64))
def _is_ascii(data: Bytes, at: int, end: int) -> bool:
    bits = 0
    for index in range(at, end):
        bits |= _int64(data[index])
    return bits < 128


@kernel(types.UniTuple(_I64, 8)(_I64))
def _not_plain(at: int) -> tuple[int, int, int, int, int, int, int, int]:
    return -1, 0, 0, 0, 0, 0, 0, 0


@kernel(types.UniTuple(_I64, 8)(_BYTES, _I64, _I64))
def _plain_produce(data: Bytes, at: int, end: int) -> tuple[int, int, int, int, int, int, int, int]:
    """The frame of one plain Produce request: its end, version, acks, time-out, topic and its size,
    partition, and where its batch begins."""
    if end - at < 14:
        return _not_plain(at)
    length = _signed(data, at, 4)
    if length < 10 or length > end - at - 4 or _signed(data, at + 4, 2) != 0:
        return _not_plain(at)
    frame_end = at + 4 + length
    version = _signed(data, at + 6, 2)
    client_size = max(_signed(data, at + 12, 2), 0)
    at += 14
    # Nothing that is plain is shorter than its batch's header: what is read before it lies in the frame.
    if version < 3 or version > 13 or client_size + 16 + 61 > frame_end - at:
        return _not_plain(at)
    if not _is_ascii(data, at, at + client_size):
        return _not_plain(at)
    at += client_size
    limit = frame_end - 61
    if version < 9:
        if _signed(data, at, 2) != -1 or _signed(data, at + 8, 4) != 1:
            return _not_plain(at)
        acks, timeout_ms = _signed(data, at + 2, 2), _signed(data, at + 4, 4)
        topic_size, topic_at = _signed(data, at + 12, 2), at + 14
        at = topic_at + topic_size
        if topic_size < 0 or at + 12 > limit or _signed(data, at, 4) != 1:
            return _not_plain(at)
        partition, size, at = _signed(data, at + 4, 4), _signed(data, at + 8, 4), at + 12
        tail = 0
    else:
        if data[at] != 0 or data[at + 1] != 0 or data[at + 8] != 2:
            return _not_plain(at)
        acks, timeout_ms = _signed(data, at + 2, 2), _signed(data, at + 4, 4)
        topic_size, topic_at = 17, at + 9
        if version < 13:
            topic_size, topic_at = _compact(data, at + 9, limit)
        topic_size -= 1
        at = topic_at + topic_size
        if topic_at < 0 or topic_size < 0 or at + 6 > limit or data[at] != 2:
            return _not_plain(at)
        partition = _signed(data, at + 1, 4)
        size, at = _compact(data, at + 5, limit)
        size -= 1
        tail = 3
        if data[frame_end - 1] or data[frame_end - 2] or data[frame_end - 3]:
            return _not_plain(at)
    if at < 0 or size != frame_end - tail - at or size < 61 or (acks != 1 and acks != -1):
        return _not_plain(at)
    if version < 13 and not _is_ascii(data, topic_at, topic_at + topic_size):
        return _not_plain(at)
    return frame_end, version, acks, timeout_ms, topic_at, topic_size, partition, at


@kernel(types.boolean(_BYTES, _I64, _I64, _I64))
def _is_same(data: Bytes, one: int, other: int, size: int) -> bool:
    differences = 0
    for index in range(size):
        differences |= data[one + index] ^ data[other + index]
    return differences == 0


@kernel(types.boolean(_BYTES, _I64, _I64))
def _is_plain_batch(data: Bytes, at: int, size: int) -> bool:
    count = _signed(data, at + 57, 4)
    return (
        _signed(data, at, 8) == 0
        and _signed(data, at + 8, 4) == size - 12
        and data[at + 16] == 2
        and _signed(data, at + 21, 2) == 0
        and count > 0
        and _signed(data, at + 23, 4) == count - 1
        and (_signed(data, at + 43, 8) < 0 or _signed(data, at + 53, 4) >= 0)
    )


@kernel(types.UniTuple(_I64, 15)(_BYTES, _I64, _I64, _COLUMNS))
def produce_run(
    data: Bytes, at: int, end: int, rows: Numbers
) -> tuple[int, int, int, int, int, int, int, int, int, int, int, int, int, int, int]:
    version, acks, topic_at, topic_size, partition, timeout_ms = 0, 0, 0, 0, 0, 0
    batch_bytes, batch_max, frame_max, record_count, null_keys = 0, 0, 0, 0, 0
    min_timestamp, max_timestamp = _INT64_MAX, -1
    count = 0
    while count < rows.shape[0]:
        found = _plain_produce(data, at, end)
        frame_end, batch_at = found[0], found[7]
        if frame_end < 0:
            break
        if count == 0:
            version, acks, timeout_ms, topic_at, topic_size, partition = found[1:7]
        elif (
            found[1] != version
            or found[2] != acks
            or found[5] != topic_size
            or found[6] != partition
            or not _is_same(data, found[4], topic_at, topic_size)
        ):
            break
        batch_end = frame_end - (3 if version >= 9 else 0)
        size = batch_end - batch_at
        if not _is_plain_batch(data, batch_at, size):
            break
        records = _signed(data, batch_at + 57, 4)
        scan = scan_records(data[batch_at + 61 : batch_end], records, _signed(data, batch_at + 27, 8))
        if scan[0] or scan[2] != _signed(data, batch_at + 35, 8):
            break
        rows[count, 0] = at
        rows[count, 1] = _signed(data, at + 8, 4)
        rows[count, 2] = batch_at
        rows[count, 3] = size
        rows[count, 4] = records
        rows[count, 5] = scan[2]
        rows[count, 6] = _signed(data, batch_at + 17, 4) & 0xFFFFFFFF
        rows[count, 7] = _signed(data, batch_at + 43, 8)
        timeout_ms = min(timeout_ms, found[3])
        batch_bytes += size
        record_count += records
        batch_max, frame_max = max(batch_max, size), max(frame_max, frame_end - at - 4)
        max_timestamp, min_timestamp = max(max_timestamp, scan[2]), min(min_timestamp, scan[4])
        null_keys += scan[5]
        count += 1
        at = frame_end
    spread = (batch_bytes, batch_max, frame_max, record_count, min_timestamp, max_timestamp, null_keys)
    return (count, at, version, acks, topic_at, topic_size, partition, timeout_ms) + spread  # noqa: RUF005 - numba
