"""How values with registered schemas begin: a zero byte, the schema's id in four bytes, and for Protobuf the
message of the schema that it is.

    00 | 00 00 00 07 | payload
    00 | 00 00 00 07 | 02 02 00 | payload      Protobuf: the path to the message, here [1, 0]

The path is a count and that many indexes, as zigzag varints; the usual [0], the first message, is one zero.
"""

from typing import Final, NamedTuple

HEAD_BYTES: Final = 5
# A path is as deep as messages are nested; Protobuf's own parsers give up at 100.
_DEPTH_MAX: Final = 100
_VARINT_BITS_MAX: Final = 35


class Head(NamedTuple):
    """What a value begins with, and where its payload begins."""

    schema_id: int
    start: int


def read_head(value: bytes) -> Head:
    """ValueError where it has none."""
    if len(value) < HEAD_BYTES or value[0]:
        raise ValueError("the value does not begin with a zero byte and a schema's id")
    return Head(int.from_bytes(value[1:HEAD_BYTES], "big"), HEAD_BYTES)


def head_bytes(schema_id: int) -> bytes:
    return b"\0" + schema_id.to_bytes(HEAD_BYTES - 1, "big")


def read_indexes(value: bytes, start: int) -> tuple[tuple[int, ...], int]:
    """The path to a message, and where the payload begins; ValueError where there is no path."""
    count, at = _varint(value, start)
    if not 0 <= count <= _DEPTH_MAX:
        raise ValueError(f"the path to the message has {count} steps, which is none")
    found = []
    for _ in range(count):
        index, at = _varint(value, at)
        found.append(index)
    return tuple(found) or (0,), at


def indexes_bytes(indexes: tuple[int, ...]) -> bytes:
    if indexes == (0,):
        return b"\0"
    return b"".join(map(_varint_bytes, (len(indexes), *indexes)))


def _varint(value: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if at >= len(value) or shift > _VARINT_BITS_MAX:
            raise ValueError("the path to the message is cut off")
        byte = value[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return (number >> 1) ^ -(number & 1), at


def _varint_bytes(number: int) -> bytes:
    rest = number << 1
    found = bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    return bytes(found)
