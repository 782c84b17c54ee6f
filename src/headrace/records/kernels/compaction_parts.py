"""What the kernels of compaction are made of: numbers in bytes, records, batches, and the offset map's table.

A part is compiled into each kernel that calls it and never by itself. So it costs nothing where kernels come
out of numba's cache, and is always there to be inlined where one is compiled.
"""

from typing import Final

from headrace.records.kernels.hashes import siphash
from headrace.records.kernels.notation import (
    INT64_MAX,
    Bytes,
    Cells,
    Numbers,
    Room,
    Word,
    Words,
    give_way,
    number,
    part,
    prefetch,
    signed_at,
    word,
)

_MASK: Word = 0xFFFFFFFFFFFFFFFF
_0: Word = 0
_1: Word = 1
_7: Word = 7
_32: Word = 32
_127: Word = 127
_128: Word = 128

# Those of `compaction.layout` as plain numbers: constants cost nothing.
_MORE, _BAD_HEADER = 0, 3
_SLOTS, _SECRET_0, _SECRET_1 = 0, 3, 4

# Records that are looked at together, and the numbers that are kept of each: where it ends, its timestamp's
# delta, its offset, and the sizes of key and value; the two words of its key's hash are kept beside them.
AHEAD_MAX: Final = 32
AHEAD_FIELDS: Final = 8

# After so many bytes, some 20 to 60 microseconds, a kernel gives way to others: half a microsecond.
TURN_BYTES: Final = 1 << 16


@part
def next_turn(at: int, turn_end: int) -> int:
    """Give way to others where a turn is over; where the next one ends."""
    if at < turn_end:
        return turn_end
    give_way()
    return at + TURN_BYTES


@part
def read_varint(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """A zigzag varint and where it ends; -1 for that where it does not."""
    folded = 0
    shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        folded |= (byte & 127) << shift
        if byte < 128:
            return ((folded >> 1) & INT64_MAX) ^ -(folded & 1), at
        shift += 7
    return 0, -1


@part
def fold(value: int) -> Word:
    """A signed number as the unsigned one that its zigzag varint holds."""
    return ((word(value) << _1) & _MASK) ^ word(value >> 63)


@part
def put_varint(room: Room, at: int, value: int) -> int:
    """Write a zigzag varint; where it ends."""
    folded = fold(value)
    while folded > _127:
        room[at] = (folded & _127) | _128
        folded >>= _7
        at += 1
    room[at] = folded
    return at + 1


@part
def varint_bytes(value: int) -> int:
    folded = fold(value)
    size = 1
    while folded > _127:
        folded >>= _7
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
    size = signed_at(data, at + 8, 4) + 12
    if size < 61 or data[at + 16] != 2 or signed_at(data, at + 57, 4) < 0 or signed_at(data, at + 23, 4) < 0:
        return _BAD_HEADER, 0
    return (_MORE if size > end - at else -1), size


@part
def home_of(low: Word, slots: int) -> int:
    return number(((low >> _32) * word(slots)) >> _32)


@part
def slot_of(table: Words, slots: int, low: Word, high: Word) -> int:
    """Where a key's entry is, or where it would be."""
    at = home_of(low, slots)
    while True:
        entry = 3 * at
        if table[entry + 2] == _0 or (table[entry] == low and table[entry + 1] == high):
            return at
        at += 1
        if at == slots:
            at = 0


@part
def is_superseded(table: Words, slots: int, place: int) -> bool:
    """The bit of the offset that lies `place` behind the first one that has one."""
    return bool((table[3 * slots + (place >> 6)] >> word(place & 63)) & _1)


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
    params: Numbers,
    ahead: Cells,
    hashes: Words,
) -> int:
    """Take some records apart, hash the keys of those from offset `first` to `last`, and have their entries
    brought from memory, which takes longer than everything else, all at once. How many; -1: one is bad."""
    slots, secret_0, secret_1 = params[_SLOTS], word(params[_SECRET_0]), word(params[_SECRET_1])
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
            low, high = siphash(data, key_at, key_size, secret_0, secret_1)
            prefetch(table, 3 * home_of(low, slots))
            hashes[2 * index] = low
            hashes[2 * index + 1] = high
        at = end
    return count
