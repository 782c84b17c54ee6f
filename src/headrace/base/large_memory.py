"""Memory by the hundred megabytes, of which nobody notices the taking or the giving back.

A `bytearray` is filled with zeros when it is made and copied when it grows, and all of that is done while the
interpreter can do nothing else: 100 MB take a tenth of a second each time, for every thread. Anonymous
mappings are filled page by page as they are used, grow by moving pages, and let other threads run while they
are let go.
"""

import mmap
from typing import Final, TypeAlias

LARGE_BYTES: Final = 2 * 1024 * 1024
"""From here on memory is taken by mappings, and work that passes through all of it is no short work."""

_PRIVATE: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS


Room: TypeAlias = bytearray | mmap.mmap


def take_room(size: int) -> Room:
    """Memory that is all zeros."""
    return bytearray(size) if size <= LARGE_BYTES else mmap.mmap(-1, size, flags=_PRIVATE)


def grow_room(room: Room, size: int) -> Room:
    """The same bytes with room behind them. What is given is not to be used any more."""
    if isinstance(room, mmap.mmap):
        try:
            room.resize(size)
            return room
        except (BufferError, SystemError):  # somebody looks at it still, or the system cannot move pages
            pass
    larger = take_room(size)
    memoryview(larger)[: len(room)] = memoryview(room)
    return larger
