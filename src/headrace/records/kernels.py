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
_NUMBERS: Final = types.Array(types.int64, 1, "C", readonly=True)
_HASHES: Final = types.Array(types.int32, 1, "C")
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


@kernel(_I64(_BYTES, _I64, _I64))
def _word(data: Bytes, at: int, size: int) -> int:
    """Up to 8 bytes as a little-endian number."""
    word = 0
    for index in range(size):
        word |= _int64(data[at + index]) << (8 * index)
    return word


@kernel(types.boolean(_I64, _I64, _I64))
def _overflows(a: int, b: int, total: int) -> bool:
    return ((a ^ total) & (b ^ total)) < 0


@kernel(types.UniTuple(_I64, 6)(_BYTES, _I64, _I64))
def scan_records(body: Bytes, count: int, base_timestamp: int) -> tuple[int, int, int, int, int, int]:
    limit = body.shape[0]
    at = 0
    null_keys = 0
    max_timestamp = -1
    max_index = -1
    min_timestamp = _INT64_MAX
    for index in range(count):
        flaw, at, timestamp_delta, offset_delta, _, key_size, _, _, _, _ = _fields(body, at, limit)
        if flaw:
            return flaw, index, -1, -1, -1, 0
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


@kernel(types.int32(_BYTES))
def murmur2(data: Bytes) -> int:
    size: int = data.shape[0]
    mixed = 0x9747B28C ^ size
    whole = size & ~3
    for at in range(0, whole, 4):
        word = _word(data, at, 4) * 0x5BD1E995 & 0xFFFFFFFF
        word = (word ^ (word >> 24)) * 0x5BD1E995 & 0xFFFFFFFF
        mixed = (mixed * 0x5BD1E995 & 0xFFFFFFFF) ^ word
    if size & 3:
        mixed = (mixed ^ _word(data, whole, size & 3)) * 0x5BD1E995 & 0xFFFFFFFF
    mixed = (mixed ^ (mixed >> 13)) * 0x5BD1E995 & 0xFFFFFFFF
    mixed ^= mixed >> 15
    return mixed - ((mixed >> 31) << 32)


@kernel(types.void(_BYTES, _NUMBERS, _NUMBERS, _HASHES))
def murmur2_spans(data: Bytes, at: Numbers, size: Numbers, hashes: NDArray[np.int32]) -> None:
    for index in range(hashes.shape[0]):
        start, length = at[index], size[index]
        hashes[index] = murmur2(data[start : start + length]) if length >= 0 else 0
