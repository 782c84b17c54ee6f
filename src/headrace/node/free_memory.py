"""Memory that is free goes back to the system, for others to use.

A hostile client or a burst makes a node take hundreds of megabytes for a moment. They are freed, but the C
library keeps them: what lies between two pieces that are still in use stays with the process for good. So a
timer looks how much is free and not given back, and has it given back where that is much. A thread does it,
because the kernel takes some 50 ms for half a gigabyte.

What is free and given back still counts as free. So what was free after the last time, and how large the
process was, tell whether there is anything to give.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
from pathlib import Path
from typing import Final, Protocol

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 2.0
FREE_BYTES_MIN: Final = 32 << 20
"""Less is kept: the next requests need it."""

CHANGE_BYTES_MIN: Final = 16 << 20
_PAGE_BYTES: Final = 4096


class Heap(Protocol):
    """The memory of a process."""

    def free_bytes(self) -> int:
        """What the process has freed, whether or not the system has it back."""

    def resident_bytes(self) -> int:
        """What the process has of the machine's memory."""

    def trim(self) -> None:
        """Give back what is free."""


class FreeMemory:
    """Watches one process's heap."""

    def __init__(self, loop: asyncio.AbstractEventLoop, heap: Heap) -> None:
        self._loop = loop
        self._heap = heap
        self._free_bytes = 0
        self._resident_bytes = heap.resident_bytes()

    def watch(self) -> None:
        """Look now, and again every now and then."""
        self._look()
        self._loop.call_later(LOOK_SECONDS, self.watch)

    def _look(self) -> None:
        free_bytes, resident_bytes = self._heap.free_bytes(), self._heap.resident_bytes()
        is_changed = (
            abs(free_bytes - self._free_bytes) > CHANGE_BYTES_MIN
            or resident_bytes - self._resident_bytes > CHANGE_BYTES_MIN
        )
        if free_bytes > FREE_BYTES_MIN and is_changed:
            self._loop.run_in_executor(None, self._heap.trim).add_done_callback(self._trimmed)
            self._free_bytes = free_bytes

    def _trimmed(self, done: asyncio.Future[None]) -> None:
        if done.cancelled() or done.exception() is not None:
            return
        before, self._resident_bytes = self._resident_bytes, self._heap.resident_bytes()
        logger.debug(
            "free memory was given back: the process has %d MiB, after %d MiB when this was done last",
            *(self._resident_bytes >> 20, before >> 20),
        )


class _MallInfo(ctypes.Structure):
    """glibc's struct mallinfo2."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


class GlibcHeap:
    """The heap of the GNU C library."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._info = library.mallinfo2
        self._info.restype = _MallInfo
        self._trim = library.malloc_trim

    def free_bytes(self) -> int:
        return int(self._info().fordblks)

    def resident_bytes(self) -> int:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * _PAGE_BYTES

    def trim(self) -> None:
        self._trim(0)


def system_heap() -> Heap | None:
    """The heap of this process; None where its C library cannot be asked (musl, macOS, glibc before 2.33)."""
    try:
        heap = GlibcHeap(ctypes.CDLL(None))
        heap.resident_bytes()
    except (AttributeError, OSError):
        return None
    return heap
