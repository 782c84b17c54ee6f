"""The `.timeindex` file: which offsets a segment's timestamps lead to.

Entries are 12 bytes: a timestamp (int64) and an offset relative to the segment's base (int32), both rising.
An entry says: up to this offset no record is younger than this timestamp. One is written with each entry of
the offset index when the segment's largest timestamp has grown, and a last one when the segment is closed, so
that the last entry holds the segment's largest timestamp.
"""

import struct
from bisect import bisect_left, bisect_right
from typing import Final

from headrace.base.chunks import Buffer
from headrace.base.errors import InvalidBytesError

ENTRY_BYTES: Final = 12
NO_TIMESTAMP: Final = -1

_ENTRY: Final = struct.Struct(">qi")


def without_reserve(data: Buffer) -> Buffer:
    """The entries of a file without the zeros behind them, which Apache Kafka reserves ahead. An entry of
    such numbers would be that of a first record from 1970."""
    unpack, count = _ENTRY.unpack_from, len(data) // ENTRY_BYTES
    used = bisect_left(range(count), True, key=lambda n: unpack(data, n * ENTRY_BYTES) == (0, 0))
    return memoryview(data)[: used * ENTRY_BYTES]


class TimeIndex:
    """The entries of one segment over a buffer in the file's own format."""

    __slots__ = ("base_offset", "data")

    def __init__(self, base_offset: int, data: Buffer) -> None:
        self.base_offset = base_offset
        self.data = data

    def __len__(self) -> int:
        return len(self.data) // ENTRY_BYTES

    def entry(self, number: int) -> tuple[int, int]:
        """(timestamp, offset) of an entry."""
        timestamp, relative = _ENTRY.unpack_from(self.data, number * ENTRY_BYTES)
        return timestamp, self.base_offset + relative

    def last(self) -> tuple[int, int]:
        """The last entry: the largest timestamp so far; (-1, base offset) where there is none."""
        return self.entry(len(self) - 1) if self.data else (NO_TIMESTAMP, self.base_offset)

    def append_if_later(self, timestamp: int, offset: int) -> None:
        """Add an entry unless the last one already covers this timestamp."""
        assert isinstance(self.data, bytearray), "only the active segment's index grows"
        if timestamp > self.last()[0]:
            self.data += _ENTRY.pack(timestamp, offset - self.base_offset)

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """The last entry that is not younger than `timestamp`; (-1, base offset) where there is none."""
        data, unpack = self.data, _ENTRY.unpack_from
        number = bisect_right(range(len(self)), timestamp, key=lambda n: unpack(data, n * ENTRY_BYTES)[0]) - 1
        return self.entry(number) if number >= 0 else (NO_TIMESTAMP, self.base_offset)

    def truncate(self, offset: int) -> None:
        """Forget entries at or above `offset`."""
        assert isinstance(self.data, bytearray), "only the active segment's index shrinks"
        data, unpack, relative = self.data, _ENTRY.unpack_from, offset - self.base_offset
        number = bisect_right(range(len(self)), relative - 1, key=lambda n: unpack(data, n * ENTRY_BYTES)[1])
        del self.data[number * ENTRY_BYTES :]

    def check(self) -> None:
        """Raise InvalidBytesError for what a whole index cannot be."""
        if len(self.data) % ENTRY_BYTES:
            raise InvalidBytesError(f"its {len(self.data)} bytes are not a multiple of {ENTRY_BYTES}")
        if self.data:
            timestamp, offset = self.last()
            if offset < self.base_offset or timestamp < self.entry(0)[0]:
                raise InvalidBytesError(f"its last entry ({timestamp}, {offset}) lies before its first")
