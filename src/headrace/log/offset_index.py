"""The `.index` file: where in a segment to start looking for an offset.

Entries are 8 bytes: the offset relative to the segment's base (int32) and a position in the `.log` file
(int32), both rising. An entry names the last offset of a batch and where that batch starts;
`index.interval.bytes` of log lie between entries, so a search ends with a walk over a few batch headers.

The two numbers of an entry, read as one int64, order as the entries do. The active segment's index is a
bytearray in memory that is written out at roll and close; a closed segment's is read when first asked, and
may be dropped any time.
"""

import struct
from bisect import bisect_left, bisect_right
from typing import Final

from headrace.base.chunks import Buffer
from headrace.base.errors import InvalidBytesError

ENTRY_BYTES: Final = 8

_ENTRY: Final = struct.Struct(">ii")
_KEY: Final = struct.Struct(">q")


def without_reserve(data: Buffer) -> Buffer:
    """The entries of a file without the zeros behind them: Apache Kafka reserves room for an active
    segment's index ahead, and a copy or a crash leaves it there. Only room starts at position 0."""
    unpack, count = _ENTRY.unpack_from, len(data) // ENTRY_BYTES
    used = bisect_left(range(count), True, key=lambda n: unpack(data, n * ENTRY_BYTES)[1] == 0)
    return memoryview(data)[: used * ENTRY_BYTES]


class OffsetIndex:
    """The entries of one segment over a buffer in the file's own format."""

    __slots__ = ("base_offset", "data")

    def __init__(self, base_offset: int, data: Buffer) -> None:
        self.base_offset = base_offset
        self.data = data

    def __len__(self) -> int:
        return len(self.data) // ENTRY_BYTES

    def entry(self, number: int) -> tuple[int, int]:
        """(offset, position) of an entry."""
        relative, position = _ENTRY.unpack_from(self.data, number * ENTRY_BYTES)
        return self.base_offset + relative, position

    def append(self, offset: int, position: int) -> None:
        assert isinstance(self.data, bytearray), "only the active segment's index grows"
        self.data += _ENTRY.pack(offset - self.base_offset, position)

    def lookup(self, offset: int) -> tuple[int, int]:
        """The last entry at or below `offset`; the segment's start where there is none."""
        relative = offset - self.base_offset
        number = self._first_above((relative + 1 << 32) - 1) - 1 if relative < 1 << 31 else len(self) - 1
        return self.entry(number) if number >= 0 else (self.base_offset, 0)

    def upper_bound(self, position: int) -> int | None:
        """The offset of the first entry whose batch starts at or behind `position`: no batch that starts
        before it holds an offset above. None where no entry lies that far back."""
        number = self._first_behind(position - 1)
        return self.entry(number)[0] if number < len(self) else None

    def offset_before(self, position: int) -> int:
        """The offset of the last entry whose batch starts at or before `position`; the base without one."""
        number = self._first_behind(position) - 1
        return self.entry(number)[0] if number >= 0 else self.base_offset

    def truncate(self, offset: int) -> None:
        """Forget entries at or above `offset`."""
        assert isinstance(self.data, bytearray), "only the active segment's index shrinks"
        relative = offset - self.base_offset
        del self.data[self._first_above((relative << 32) - 1) * ENTRY_BYTES :]

    def check(self, segment_bytes: int) -> None:
        """Raise InvalidBytesError for what a whole index of a segment of this size cannot be."""
        if len(self.data) % ENTRY_BYTES:
            raise InvalidBytesError(f"its {len(self.data)} bytes are not a multiple of {ENTRY_BYTES}")
        if self.data:
            offset, position = self.entry(len(self) - 1)
            if offset < self.base_offset or not 0 <= position < segment_bytes:
                raise InvalidBytesError(f"its last entry ({offset}, {position}) lies outside of the segment")

    def _first_behind(self, position: int) -> int:
        data, unpack = self.data, _ENTRY.unpack_from
        return bisect_right(range(len(self)), position, key=lambda n: unpack(data, n * ENTRY_BYTES)[1])

    def _first_above(self, key: int) -> int:
        data, unpack = self.data, _KEY.unpack_from
        return bisect_right(
            range(len(data) // ENTRY_BYTES), key, key=lambda n: unpack(data, n * ENTRY_BYTES)[0]
        )
