"""Rows as a batch's records section: the plain form, written for speed.

A row is (timestamp, key, value, headers). Numbers in a record are zigzag varints; those below 64 take one
byte and those below 8192 two, so nearly all of them are looked up.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from headrace.records.varints import encode_varint

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
Row: TypeAlias = tuple[int, bytes | None, bytes | None, Headers]

_TABLE_SIZE: Final = 8192
_NUMBERS: Final = tuple(encode_varint(number) for number in range(_TABLE_SIZE))
_NULL: Final = encode_varint(-1)

# Length, attributes, two deltas, two lengths, count of headers: at their largest, about.
RECORD_OVERHEAD: Final = 21
TIMESTAMP_MAX: Final = 1 << 62  # the differences of any two still fit 64 bits
_HEADER_OVERHEAD: Final = 10


def checked_row(timestamp_ms: int, key: Any, value: Any, headers: Headers) -> Row:
    """A row of what a user gave, which can be encoded later; TypeError or ValueError where it never could."""
    if not 0 <= timestamp_ms <= TIMESTAMP_MAX:
        raise ValueError(f"{timestamp_ms} is no timestamp: it has to be milliseconds since 1970")
    if key.__class__ is not bytes and key is not None:
        key = _as_bytes(key, "key")
    if value.__class__ is not bytes and value is not None:
        value = _as_bytes(value, "value")
    if headers:
        headers = _as_headers(headers)
    return int(timestamp_ms), key, value, headers


def _as_bytes(given: Any, what: str) -> bytes:
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    raise TypeError(f"a {what} has to be bytes or None, not {type(given).__name__}: give a {what}_serializer")


def _as_headers(given: Headers) -> Headers:
    if isinstance(given, Mapping):
        raise TypeError("headers have to be pairs, for a name may come twice: give list(headers.items())")
    try:
        return tuple((name, _as_header(name, content)) for name, content in given)
    except ValueError:
        raise TypeError(f"headers have to be pairs of a text and bytes or None, not {given!r}") from None


def _as_header(name: Any, content: Any) -> bytes | None:
    is_bytes = content is None or isinstance(content, bytes | bytearray | memoryview)
    if not isinstance(name, str) or not is_bytes:
        raise TypeError(f"headers have to be pairs of a text and bytes or None, not {(name, content)!r}")
    return None if content is None else bytes(content)


def row_size(row: Row) -> int:
    """About how many bytes a row takes in a batch; never fewer than it does."""
    _, key, value, headers = row
    size = RECORD_OVERHEAD + (len(key) if key else 0) + (len(value) if value else 0)
    for name, content in headers:
        size += _HEADER_OVERHEAD + 4 * len(name) + (len(content) if content else 0)
    return size


def encode_rows(rows: Sequence[Row], base_timestamp: int) -> bytes:
    """The records section of these rows, numbered from 0."""
    numbers = _NUMBERS
    parts: list[bytes] = []
    add, join = parts.append, b"".join
    last, start = 0, b"\0\0"  # attributes and the delta of the timestamp, which often stays the same
    for index, (timestamp, key, value, headers) in enumerate(rows):
        if timestamp - base_timestamp != last:
            last = timestamp - base_timestamp
            start = b"\0" + (numbers[last] if 0 <= last < _TABLE_SIZE else encode_varint(last))
        number = numbers[index] if index < _TABLE_SIZE else encode_varint(index)
        if key is None and value is not None and not headers and len(value) < _TABLE_SIZE:
            body = join((start, number, _NULL, numbers[len(value)], value, b"\0"))
        else:
            end = _encode_headers(headers) if headers else b"\0"
            body = join((start, number, *_field(key), *_field(value), end))
        size = len(body)
        add(numbers[size] if size < _TABLE_SIZE else encode_varint(size))
        add(body)
    return join(parts)


def _field(value: bytes | None) -> tuple[bytes, bytes]:
    if value is None:
        return _NULL, b""
    size = len(value)
    return (_NUMBERS[size] if size < _TABLE_SIZE else encode_varint(size)), value


def _encode_headers(headers: Headers) -> bytes:
    parts = [encode_varint(len(headers))]
    for name, value in headers:
        encoded = name.encode()
        parts += (encode_varint(len(encoded)), encoded)
        parts += _field(value)
    return b"".join(parts)
