"""Walking over the batches of a segment's file, a large read at a time.

Every length is checked against what the file holds before it is used. `InvalidBytesError` names the position
of the first batch that cannot be one; recovery cuts there.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import Final, Protocol

from headrace.base.errors import InvalidBytesError
from headrace.log.disk import File
from headrace.records.batch import HEADER_BYTES, LOG_OVERHEAD, MAGIC, BatchHeader, read_header

# Large enough that reading is cheap beside checking, small enough to hold for a moment.
SCAN_BYTES: Final = 1 << 20
HEADER_SCAN_BYTES: Final = 16 << 10
# A first look behind an index entry: small batches lie `index.interval.bytes` at most behind it.
LOCATE_BYTES: Final = 4096

PLACE: Final = struct.Struct(">qi4xb6xi")  # base offset, length, magic, last offset delta

_OLD_START: Final = struct.Struct(">8xiIb")  # length, CRC-32 and magic of messages before record batches


class Readable(Protocol):
    """What headers are read from: a file, or a segment that is elsewhere."""

    def read(self, position: int, count: int) -> bytes: ...


class OldFormatError(Exception):
    """A segment holds messages of the formats before record batch v2; cutting them off would lose data."""


def scan_batches(file: File, start: int, end: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """(position, header, the whole batch) from `start`, which must be a batch's first byte, to `end`."""
    position = window_start = start
    window = memoryview(b"")
    while position < end:
        at = position - window_start
        if len(window) - at < HEADER_BYTES:
            window, window_start, at = _window(file, position, end, SCAN_BYTES), position, 0
        header = check_header(window, at, position, end)
        size = header.length + LOG_OVERHEAD
        if len(window) - at < size:
            window, window_start, at = _window(file, position, end, max(size, SCAN_BYTES)), position, 0
            if len(window) < size:
                raise InvalidBytesError(f"the batch at byte {position} is cut off")
        yield position, header, window[at : at + size]
        position += size


def scan_headers(file: Readable, start: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each batch; reads little where batches are large."""
    position = window_start = start
    window = memoryview(b"")
    while position < end:
        at = position - window_start
        if len(window) - at < HEADER_BYTES:
            window, window_start, at = _window(file, position, end, HEADER_SCAN_BYTES), position, 0
        header = check_header(window, at, position, end)
        yield position, header
        position += header.length + LOG_OVERHEAD


def find_batch(file: File, position: int, end: int, offset: int) -> int:
    """Where the first batch from `position` on starts that ends at or behind `offset`; `end` without one."""
    while position < end:
        window = file.read(position, min(LOCATE_BYTES, end - position))
        at = 0
        while len(window) - at >= HEADER_BYTES:
            base, length, _, delta = PLACE.unpack_from(window, at)
            if length < HEADER_BYTES - LOG_OVERHEAD:
                raise InvalidBytesError(f"there is no batch at byte {position}")
            if base + delta >= offset:
                return position
            position += length + LOG_OVERHEAD
            at += length + LOG_OVERHEAD
        if at == 0:
            raise InvalidBytesError(f"there is no batch at byte {position}")
    if position > end:
        raise InvalidBytesError(f"there is no batch at byte {position}")
    return end


def _window(file: Readable, position: int, end: int, count: int) -> memoryview:
    return memoryview(file.read(position, min(count, end - position)))


def check_header(window: memoryview, at: int, position: int, end: int) -> BatchHeader:
    """The header at `at` in a window of a file that ends at `end`, if a batch can start with it."""
    if len(window) - at < HEADER_BYTES:
        _refuse_old_format(window, at)
        raise InvalidBytesError(f"the batch at byte {position} is cut off")
    header = read_header(window, at)
    if header.magic != MAGIC:
        _refuse_old_format(window, at)
        raise InvalidBytesError(f"the batch at byte {position} has magic {header.magic}, not {MAGIC}")
    if header.length < HEADER_BYTES - LOG_OVERHEAD or header.length + LOG_OVERHEAD > end - position:
        raise InvalidBytesError(
            f"the batch at byte {position} says it is {header.length} bytes long, {end - position} are left"
        )
    if header.base_offset < 0 or header.last_offset_delta < 0:
        raise InvalidBytesError(f"the batch at byte {position} has offsets below 0")
    return header


def _refuse_old_format(window: memoryview, at: int) -> None:
    """A flipped bit looks like an old magic too; only a message whose own CRC-32 fits is one."""
    if len(window) - at < _OLD_START.size:
        return
    length, stored, magic = _OLD_START.unpack_from(window, at)
    end = at + length + LOG_OVERHEAD
    if magic in (0, 1) and at + 16 < end <= len(window) and zlib.crc32(window[at + 16 : end]) == stored:
        raise OldFormatError(
            f"messages of format v{magic} cannot be read: let Apache Kafka 3.x rewrite the topic first"
        )
