"""What generated readers and writers call off their fast path: long varints, unknown tags, and every refusal.

Reading an unsigned varint of one byte is inlined in the generated code; these take over from the second
byte on. Every refusal is an InvalidBytesError that names the field, so that a log line tells what was wrong
with a frame.
"""

from __future__ import annotations

from typing import Final, NoReturn

from headrace.base.chunks import Chunk, FileSlice
from headrace.base.errors import InvalidBytesError
from headrace.wire.plan import UnsupportedVersion

# Kafka bounds a string's length by what the old two-byte prefix could say, in compact form too.
STRING_BYTES_MAX: Final = 0x7FFF

# Objects take far more memory than the bytes they are read from: an array of minimal structs grows a
# hundredfold. 256 MiB is several times the largest honest message (metadata of 200,000 partitions) and
# keeps a 100 MiB frame of tiny elements from taking the node's memory.
MESSAGE_MEMORY_MAX: Final = 256 * 1024 * 1024

# A request whose arrays take more than this is not read at once: some thousand elements, a few milliseconds.
LIGHT_MESSAGE_MEMORY_MAX: Final = 1024 * 1024

# More are refused in a request, as Apache Kafka refuses them from 4.4 on.
ELEMENTS_MAX: Final = 1_000_000
TAGGED_FIELDS_MAX: Final = 10_000

# Elements read or written between two looks at the time.
SLICE_ELEMENTS: Final = 128
FOLDED_BYTES_MIN: Final = 16 * 1024

# Record chunks up to this size are copied next to their neighbours: cheaper than one more buffer to send.
SMALL_CHUNK_BYTES: Final = 1024


class LongMessageError(Exception):
    """A message is too long to be read at once; nothing is said about whether its bytes are valid."""


def read_uvarint(buffer: memoryview, at: int) -> tuple[int, int]:
    """An unsigned varint and the position behind it."""
    first = buffer[at]
    return (first, at + 1) if first < 128 else read_uvarint_rest(buffer, at + 1, first)


def read_uvarint_rest(buffer: memoryview, at: int, first: int) -> tuple[int, int]:
    """An unsigned varint whose first byte, already read, says that there are more: at most four."""
    value = first & 127
    for shift in (7, 14, 21, 28):
        byte = buffer[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise InvalidBytesError(f"a varint longer than 5 bytes ends at byte {at}")


def uvarint(value: int) -> bytes:
    """The bytes of an unsigned varint."""
    if value < 0x80:
        return bytes((value,))
    if value < 0x4000:
        return bytes((value & 127 | 128, value >> 7))
    if value < 0x20_0000:
        return bytes((value & 127 | 128, value >> 7 & 127 | 128, value >> 14))
    if value < 0x1000_0000:
        return bytes((value & 127 | 128, value >> 7 & 127 | 128, value >> 14 & 127 | 128, value >> 21))
    if value > 0x7FFF_FFFF:
        raise InvalidBytesError(f"a length of {value} does not fit the wire: at most 2147483647 bytes")
    return bytes(
        (
            value & 127 | 128,
            value >> 7 & 127 | 128,
            value >> 14 & 127 | 128,
            value >> 21 & 127 | 128,
            value >> 28,
        )
    )


def next_tag(buffer: memoryview, at: int, previous: int, limit: int) -> tuple[int, int, int]:
    """A tagged field's number, where its bytes begin and where they end. Tags must rise: none comes twice."""
    tag, at = read_uvarint(buffer, at)
    size, at = read_uvarint(buffer, at)
    if tag <= previous:
        raise InvalidBytesError(f"tagged field {tag} comes after {previous}: tags must rise")
    if size > limit - at:
        raise InvalidBytesError(f"tagged field {tag} has {size} bytes, but {limit - at} are left")
    return tag, at, at + size


def tag_count(buffer: memoryview, at: int, count: int, limit: int) -> tuple[int, int]:
    """How many tagged fields follow, given the first byte of that number; each takes two bytes or more."""
    if count > 127:
        count, at = read_uvarint_rest(buffer, at, count)
    if count > TAGGED_FIELDS_MAX:
        raise InvalidBytesError(f"{count} tagged fields announced: at most {TAGGED_FIELDS_MAX} are read")
    if count * 2 > limit - at:
        raise InvalidBytesError(f"{count} tagged fields announced in {limit - at} bytes")
    return count, at


def skip_tags(buffer: memoryview, at: int, count: int, limit: int) -> int:
    """The position behind tagged fields of which none is known."""
    count, at = tag_count(buffer, at, count, limit)
    tag = -1
    for _ in range(count):
        tag, _, at = next_tag(buffer, at, tag, limit)
    return at


def refuse_length(field: str, length: int, left: int) -> NoReturn:
    """A length that is negative where null is not allowed, or that points past the end."""
    if length < 0:
        raise InvalidBytesError(f"{field} has length {length}: it may not be null")
    raise InvalidBytesError(f"{field} has {length} bytes, but {left} are left or allowed")


def refuse_count(field: str, count: int, left: int) -> NoReturn:
    """An array's count that is negative where null is not allowed, or more than the bytes left could hold."""
    if count < 0:
        raise InvalidBytesError(f"{field} has {count} elements: it may not be null")
    if count > ELEMENTS_MAX:
        raise InvalidBytesError(f"{field} announces {count} elements: at most {ELEMENTS_MAX} are read")
    raise InvalidBytesError(f"{field} announces {count} elements, too many for the {left} bytes left")


def too_long(field: str, count: int) -> NoReturn:
    raise LongMessageError(f"{field} has {count} elements")


def refuse_tag_size(field: str, size: int) -> NoReturn:
    raise InvalidBytesError(f"tagged field {field} does not fill its {size} bytes, or overruns them")


def refuse_absent(field: str, version: int) -> NoReturn:
    raise UnsupportedVersion(f"{field} is set, but version {version} has no such field")


def refuse_string(field: str, size: int) -> NoReturn:
    raise InvalidBytesError(f"{field} takes {size} bytes: a string has at most {STRING_BYTES_MAX}")


def refuse_uuid(field: str, size: int) -> NoReturn:
    raise InvalidBytesError(f"{field} has {size} bytes: a uuid has 16")


def fold_pieces(parts: list[bytes]) -> None:
    """Join the small pieces at the end: to join a million of them in the end takes a third of a second."""
    start = len(parts)
    while start and len(parts[start - 1]) < FOLDED_BYTES_MIN:
        start -= 1
    parts[start:] = [b"".join(parts[start:])]


def add_records(parts: list[bytes], chunks: list[Chunk], records: Chunk | list[Chunk]) -> list[bytes]:
    """Put record chunks behind what `parts` holds, copying only small ones; returns where to go on."""
    for chunk in records if isinstance(records, list) else (records,):
        if isinstance(chunk, FileSlice) or len(chunk) > SMALL_CHUNK_BYTES:
            if parts:
                chunks.append(b"".join(parts))
                parts = []
            chunks.append(chunk)
        elif chunk:
            parts.append(chunk)  # type: ignore[arg-type]  # join takes any buffer
    return parts
