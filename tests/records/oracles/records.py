"""The oracle of the kernels of `records` and `hashes`.

A records section is walked record by record; the first flaw ends the walk. `find_record` and `fill_spans`
take gaps between offsets, which compaction leaves; `scan_records` is for what producers send and takes none.

Keys are hashed in two ways: murmur2, which every Kafka producer uses to choose a partition, and keyed
SipHash in 128 bits, by which compaction may tell keys apart without keeping them and without trusting who
wrote them.
"""

from typing import Final

from headrace.base.chunks import Buffer
from headrace.records.kernels.notation import INT64_MAX, INT64_MIN
from headrace.records.kernels.records import Found, RecordFlaw, Scan, span_columns

Fields = tuple[int, int, int, int, int, int, int, int, int, int]
"""(flaw, end, timestamp_delta, offset_delta, key_at, key_size, value_at, value_size, headers_at, count)"""


def _number(body: Buffer, at: int, end: int, bits: int) -> tuple[int, int]:
    """A zigzag varint and where it ends; -1 for that where it is cut off, -2 where it is too long."""
    if at >= end:
        return 0, -1
    byte = body[at]
    if byte < 128:
        return byte >> 1 ^ -(byte & 1), at + 1
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
    folded &= (1 << bits) - 1
    return folded >> 1 ^ -(folded & 1), at + 1


def _flawed(flaw: RecordFlaw) -> Fields:
    return flaw, 0, 0, 0, 0, 0, 0, 0, 0, 0


def _fields(body: Buffer, at: int, limit: int) -> Fields:
    """One record, taken apart and checked to its last header."""
    size, at = _number(body, at, limit, 32)
    if at < 0:
        return _flawed(RecordFlaw.CUT_OFF if at == -1 else RecordFlaw.SIZE)
    if size < 0:
        return _flawed(RecordFlaw.SIZE)
    end = at + size
    if end > limit:
        return _flawed(RecordFlaw.CUT_OFF)
    timestamp_delta, at = _number(body, at + 1, end, 64)
    if at < 0:
        return _flawed(RecordFlaw.NUMBER)
    offset_delta, at = _number(body, at, end, 32)
    if at < 0:
        return _flawed(RecordFlaw.NUMBER)
    key_size, key_at = _number(body, at, end, 32)
    if key_at < 0:
        return _flawed(RecordFlaw.NUMBER)
    if key_size < -1 or key_size > end - key_at:
        return _flawed(RecordFlaw.KEY_SIZE)
    value_size, value_at = _number(body, key_at + max(key_size, 0), end, 32)
    if value_at < 0:
        return _flawed(RecordFlaw.NUMBER)
    if value_size < -1 or value_size > end - value_at:
        return _flawed(RecordFlaw.VALUE_SIZE)
    header_count, headers_at = _number(body, value_at + max(value_size, 0), end, 32)
    if headers_at < 0:
        return _flawed(RecordFlaw.NUMBER)
    if header_count < 0 or header_count > end - headers_at:
        return _flawed(RecordFlaw.HEADER_COUNT)
    flaw = _check_headers(body, headers_at, end, header_count)
    if flaw:
        return _flawed(flaw)
    return (
        RecordFlaw.NONE,
        end,
        timestamp_delta,
        offset_delta,
        key_at,
        key_size,
        value_at,
        value_size,
        headers_at,
        header_count,
    )


def _check_headers(body: Buffer, at: int, end: int, count: int) -> RecordFlaw:
    for _ in range(count):
        size, at = _number(body, at, end, 32)
        if at < 0:
            return RecordFlaw.NUMBER
        if size < 0 or size > end - at:
            return RecordFlaw.HEADER_KEY_SIZE
        size, at = _number(body, at + size, end, 32)
        if at < 0:
            return RecordFlaw.NUMBER
        if size < -1 or size > end - at:
            return RecordFlaw.HEADER_VALUE_SIZE
        at += max(size, 0)
    return RecordFlaw.NONE if at == end else RecordFlaw.RECORD_END


def scan_records(body: Buffer, count: int, base_timestamp: int) -> Scan:
    """Check a producer's `count` records to the last byte, and learn what their batch's header should say."""
    limit = len(body)
    at = null_keys = 0
    max_timestamp = max_index = -1
    min_timestamp = INT64_MAX
    for index in range(count):
        flaw, at, timestamp_delta, offset_delta, _, key_size, *_ = _fields(body, at, limit)
        if flaw:
            return flaw, index, -1, -1, -1, 0
        if offset_delta != index:
            return RecordFlaw.OFFSET_DELTA, index, -1, -1, -1, 0
        timestamp = base_timestamp + timestamp_delta
        if not INT64_MIN <= timestamp <= INT64_MAX:
            return RecordFlaw.TIMESTAMP, index, -1, -1, -1, 0
        if timestamp > max_timestamp:
            max_timestamp, max_index = timestamp, index
        if timestamp < min_timestamp and timestamp != -1:
            min_timestamp = timestamp
        if key_size < 0:
            null_keys += 1
    if at != limit:
        return RecordFlaw.TRAILING, count, -1, -1, -1, 0
    return RecordFlaw.NONE, count, max_timestamp, max_index, min_timestamp, null_keys


def find_record(
    body: Buffer, count: int, base_timestamp: int, timestamp_min: int, offset_delta_min: int
) -> Found:
    """The first record that is neither before `timestamp_min` nor before `offset_delta_min`."""
    at = 0
    for index in range(count):
        position = at
        flaw, at, timestamp_delta, offset_delta, *_ = _fields(body, at, len(body))
        if flaw:
            return flaw, index, -1, -1, -1
        timestamp = base_timestamp + timestamp_delta
        if not INT64_MIN <= timestamp <= INT64_MAX:
            return RecordFlaw.TIMESTAMP, index, -1, -1, -1
        if timestamp >= timestamp_min and offset_delta >= offset_delta_min:
            return RecordFlaw.NONE, index, offset_delta, timestamp, position
    return RecordFlaw.NONE, -1, -1, -1, -1


def fill_spans(
    body: Buffer, count: int, base_offset: int, base_timestamp: int, block: memoryview
) -> tuple[int, int]:
    """Write where every part of every record is into the columns of `block`; returns (flaw, index)."""
    columns = span_columns(block, count)
    at = 0
    for index in range(count):
        flaw, at, timestamp_delta, offset_delta, *parts = _fields(body, at, len(body))
        if flaw:
            return flaw, index
        timestamp = base_timestamp + timestamp_delta
        offset = base_offset + offset_delta
        if not (INT64_MIN <= timestamp <= INT64_MAX and INT64_MIN <= offset <= INT64_MAX):
            return RecordFlaw.TIMESTAMP, index
        for column, number in zip(columns, (offset, timestamp, *parts), strict=True):
            column[index] = number
    return (RecordFlaw.NONE if at == len(body) else RecordFlaw.TRAILING), count


def murmur2(data: Buffer) -> int:
    """The hash by which Kafka's producers choose a key's partition: MurmurHash2 with their seed, signed."""
    size = len(data)
    mixed = 0x9747B28C ^ size
    for at in range(0, size & ~3, 4):
        word = int.from_bytes(data[at : at + 4], "little") * 0x5BD1E995 & 0xFFFFFFFF
        word = (word ^ word >> 24) * 0x5BD1E995 & 0xFFFFFFFF
        mixed = mixed * 0x5BD1E995 & 0xFFFFFFFF ^ word
    if size & 3:
        mixed = (mixed ^ int.from_bytes(data[size & ~3 :], "little")) * 0x5BD1E995 & 0xFFFFFFFF
    mixed = (mixed ^ mixed >> 13) * 0x5BD1E995 & 0xFFFFFFFF
    mixed ^= mixed >> 15
    return mixed - (mixed >> 31 << 32)


def murmur2_spans(data: Buffer, at: memoryview, size: memoryview, hashes: memoryview) -> None:
    """`murmur2` of many keys of one buffer into a column of int32; 0 for a null."""
    for index in range(len(hashes)):
        start, length = at[index], size[index]
        hashes[index] = murmur2(data[start : start + length]) if length >= 0 else 0


def siphash_spans(
    data: Buffer, at: memoryview, size: memoryview, secret_0: int, secret_1: int, hashes: memoryview
) -> None:
    """SipHash-2-4-128 of many keys of one buffer into pairs of uint64; zeros for a null."""
    for index in range(len(hashes) // 2):
        start, length = at[index], size[index]
        pair = (0, 0) if length < 0 else siphash(data[start : start + length], secret_0, secret_1)
        hashes[2 * index], hashes[2 * index + 1] = pair


_SipState = tuple[int, int, int, int]
_MASK: Final = 2**64 - 1


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> 64 - bits) & _MASK


def _rounds(state: _SipState, count: int) -> _SipState:
    a, b, c, d = state
    for _ in range(count):
        a = a + b & _MASK
        b = _rotate(b, 13) ^ a
        a = _rotate(a, 32)
        c = c + d & _MASK
        d = _rotate(d, 16) ^ c
        a = a + d & _MASK
        d = _rotate(d, 21) ^ a
        c = c + b & _MASK
        b = _rotate(b, 17) ^ c
        c = _rotate(c, 32)
    return a, b, c, d


def siphash(data: Buffer, secret_0: int, secret_1: int) -> tuple[int, int]:
    """SipHash-2-4-128 of one key."""
    state = (
        0x736F6D6570736575 ^ secret_0,
        0x646F72616E646F6D ^ secret_1 ^ 0xEE,
        0x6C7967656E657261 ^ secret_0,
        0x7465646279746573 ^ secret_1,
    )
    size = len(data)
    for at in range(0, size + 1, 8):
        word = int.from_bytes(data[at : at + 8], "little")
        if at + 8 > size:
            word |= (size & 0xFF) << 56
        a, b, c, d = state
        a, b, c, d = _rounds((a, b, c, d ^ word), 2)
        state = a ^ word, b, c, d
    a, b, c, d = state
    a, b, c, d = _rounds((a, b, c ^ 0xEE, d), 4)
    low = a ^ b ^ c ^ d
    a, b, c, d = _rounds((a, b ^ 0xDD, c, d), 4)
    return low, a ^ b ^ c ^ d
