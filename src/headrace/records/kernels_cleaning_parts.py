"""What the kernels of compaction are made of: numbers in bytes, records, batches, keys and their table.

A part is compiled into each kernel that calls it and never by itself. So it costs nothing where kernels come
out of numba's cache, and is always there to be inlined where one is compiled.
"""
# numba's cache does not see changes in here: `PARTS` in the kernels' files says which parts they were made
# of, and a test tells what to write there.

from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from headrace.records.kernels_llvm import give_way as _give_way
from headrace.records.kernels_llvm import prefetch as _prefetch
from headrace.records.kernels_llvm import word as _word

_P = ParamSpec("_P")
_R = TypeVar("_R")

types: Any = numba.types
_int64 = cast(Callable[[Any], int], np.int64)

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]
Words = NDArray[np.uint64]

I64: Final = types.int64
BYTES: Final = types.Array(types.uint8, 1, "C", readonly=True)
ROOM: Final = types.Array(types.uint8, 1, "C")
TABLE: Final = types.Array(types.uint64, 1, "C")
NUMBERS: Final = types.Array(types.int64, 1, "C", readonly=True)
STATE: Final = types.Array(types.int64, 1, "C")

# Those of `cleaning_layout` as plain numbers: numba's cache does not look into other modules.
_MORE, _BAD_HEADER = 0, 3
_SLOTS, _SECRET_0, _SECRET_1 = 0, 3, 4

# Records that are looked at together, and the numbers that are kept of each: where it ends, its timestamp's
# delta, its offset, the sizes of key and value, and two words of the key's hash.
AHEAD_MAX: Final = 32
AHEAD_FIELDS: Final = 8

# After so many bytes, some 20 to 60 microseconds, a kernel gives way to others: half a microsecond.
TURN_BYTES: Final = 1 << 16


def part(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Something that kernels call."""
    return cast(Callable[_P, _R], numba.njit(function, nogil=True))


@part
def next_turn(at: int, turn_end: int) -> int:
    """Give way to others where a turn is over; where the next one ends."""
    if at < turn_end:
        return turn_end
    _give_way()
    return at + TURN_BYTES


# -- bytes ---------------------------------------------------------------------------------------------------


@part
def read_signed(data: Bytes, at: int, size: int) -> int:
    """A big-endian number."""
    number = _int64(data[at])
    number -= (number & 128) << 1
    for index in range(1, size):
        number = (number << 8) | _int64(data[at + index])
    return number


@part
def put_signed(room: Bytes, at: int, number: int, size: int) -> None:
    """A number in big-endian bytes."""
    for index in range(size):
        room[at + index] = np.uint8((number >> (8 * (size - 1 - index))) & 0xFF)


@part
def read_varint(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """A zigzag varint and where it ends; -1 for that where it does not."""
    folded = _int64(0)
    shift = 0
    while at < end and shift < 70:
        byte = _int64(data[at])
        at += 1
        folded |= (byte & 127) << shift
        if byte < 128:
            return ((folded >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(folded & 1), at
        shift += 7
    return 0, -1


@part
def put_varint(room: Bytes, at: int, number: int) -> int:
    """Write a zigzag varint; where it ends."""
    folded = (np.uint64(number) << np.uint64(1)) ^ np.uint64(number >> 63)
    while folded > np.uint64(127):
        room[at] = np.uint8((folded & np.uint64(127)) | np.uint64(128))
        folded >>= np.uint64(7)
        at += 1
    room[at] = np.uint8(folded)
    return at + 1


@part
def varint_bytes(number: int) -> int:
    folded = (np.uint64(number) << np.uint64(1)) ^ np.uint64(number >> 63)
    size = 1
    while folded > np.uint64(127):
        folded >>= np.uint64(7)
        size += 1
    return size


@part
def read_record(data: Bytes, at: int, limit: int) -> tuple[int, int, int, int, int, int]:
    """A record's end (-1: it is none), its deltas, where its key is, and the sizes of key and value."""
    size, at = read_varint(data, at, limit)
    end = at + size
    if at < 0 or size < 0 or end > limit:
        return -1, 0, 0, 0, 0, 0
    timestamp_delta, at = read_varint(data, at + 1, end)
    if at < 0:
        return -1, 0, 0, 0, 0, 0
    offset_delta, at = read_varint(data, at, end)
    if at < 0:
        return -1, 0, 0, 0, 0, 0
    key_size, key_at = read_varint(data, at, end)
    if key_at < 0 or key_size < -1 or key_size > end - key_at:
        return -1, 0, 0, 0, 0, 0
    value_size, at = read_varint(data, key_at + max(key_size, 0), end)
    if at < 0 or value_size < -1 or value_size > end - at:
        return -1, 0, 0, 0, 0, 0
    return end, timestamp_delta, offset_delta, key_at, key_size, value_size


@part
def see_batch(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """What can be said of the bytes at `at`, and the size of the batch there."""
    if end - at < 61:
        return _MORE, 0
    size = read_signed(data, at + 8, 4) + 12
    if (
        size < 61
        or data[at + 16] != 2
        or read_signed(data, at + 57, 4) < 0
        or read_signed(data, at + 23, 4) < 0
    ):
        return _BAD_HEADER, 0
    return (_MORE if size > end - at else -1), size


# -- the table of keys ---------------------------------------------------------------------------------------


@part
def sip_rounds(
    a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64, count: int
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    for _ in range(count):
        a += b
        b = ((b << np.uint64(13)) | (b >> np.uint64(51))) ^ a
        a = (a << np.uint64(32)) | (a >> np.uint64(32))
        c += d
        d = ((d << np.uint64(16)) | (d >> np.uint64(48))) ^ c
        a += d
        d = ((d << np.uint64(21)) | (d >> np.uint64(43))) ^ a
        c += b
        b = ((b << np.uint64(17)) | (b >> np.uint64(47))) ^ c
        c = (c << np.uint64(32)) | (c >> np.uint64(32))
    return a, b, c, d


@part
def hash_key(
    data: Bytes, at: int, size: int, secret_0: np.uint64, secret_1: np.uint64
) -> tuple[np.uint64, np.uint64]:
    """SipHash-2-4-128, as `kernels_siphash` has it, by words."""
    a = np.uint64(0x736F6D6570736575) ^ secret_0
    b = np.uint64(0x646F72616E646F6D) ^ secret_1 ^ np.uint64(0xEE)
    c = np.uint64(0x6C7967656E657261) ^ secret_0
    d = np.uint64(0x7465646279746573) ^ secret_1
    for step in range(size >> 3):
        word = _word(data, at + 8 * step)
        a, b, c, d = sip_rounds(a, b, c, d ^ word, 2)
        a ^= word
    word = np.uint64(size & 0xFF) << np.uint64(56)
    rest = at + (size & ~7)
    for index in range(size & 7):
        word |= np.uint64(data[rest + index]) << np.uint64(8 * index)
    a, b, c, d = sip_rounds(a, b, c, d ^ word, 2)
    a ^= word
    a, b, c, d = sip_rounds(a, b, c ^ np.uint64(0xEE), d, 4)
    low = a ^ b ^ c ^ d
    a, b, c, d = sip_rounds(a, b ^ np.uint64(0xDD), c, d, 4)
    return low, a ^ b ^ c ^ d


@part
def home_of(low: np.uint64, slots: int) -> int:
    return _int64(((low >> np.uint64(32)) * np.uint64(slots)) >> np.uint64(32))


@part
def slot_of(table: Words, slots: int, low: np.uint64, high: np.uint64) -> int:
    """Where a key's entry is, or where it would be."""
    at = home_of(low, slots)
    while True:
        entry = 3 * at
        if table[entry + 2] == np.uint64(0) or (table[entry] == low and table[entry + 1] == high):
            return at
        at += 1
        if at == slots:
            at = _int64(0)


@part
def is_superseded(table: Words, slots: int, place: int) -> bool:
    """The bit of the offset that lies `place` behind the first one that has one."""
    return bool((table[3 * slots + (place >> 6)] >> np.uint64(place & 63)) & np.uint64(1))


@part
def look_ahead(
    data: Bytes,
    at: int,
    limit: int,
    count: int,
    base_offset: int,
    first: int,
    last: int,
    table: Words,
    job: Numbers,
    ahead: Numbers,
) -> int:
    """Take some records apart, hash the keys of those from offset `first` to `last`, and have their entries
    brought from memory, which takes longer than everything else, all at once. How many; -1: one is bad."""
    slots, secret_0, secret_1 = job[_SLOTS], np.uint64(job[_SECRET_0]), np.uint64(job[_SECRET_1])
    count = min(count, AHEAD_MAX)
    for index in range(count):
        row = index * AHEAD_FIELDS
        end, timestamp_delta, offset_delta, key_at, key_size, value_size = read_record(data, at, limit)
        if end < 0:
            return -1
        offset = base_offset + offset_delta
        ahead[row] = end
        ahead[row + 1] = timestamp_delta
        ahead[row + 2] = offset
        ahead[row + 3] = key_size
        ahead[row + 4] = value_size
        if key_size >= 0 and offset >= first and offset <= last:
            low, high = hash_key(data, key_at, key_size, secret_0, secret_1)
            _prefetch(table, 3 * home_of(low, slots))
            ahead[row + 5] = _int64(low)
            ahead[row + 6] = _int64(high)
        at = end
    return count
