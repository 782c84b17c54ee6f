"""The windows in memory: bounded, shared by all readers, and fair to them.

Readers are known by where they will read next: whoever asks for the offset at which another read ended is
taken for the same reader, going on. Each may count on an equal share of the memory, and windows are small
enough that a share holds the one being read and at least one ahead. So a hundred readers have smaller windows
than one has, and none of them loses its window to another that reads far ahead.

Windows that somebody has read to their end go first, then those that were not used for the longest time.
"""

from bisect import insort
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from headrace.base.ids import TopicPartition
from headrace.tiered.remote_storage import WINDOW_BYTES_MAX
from headrace.tiered.windows import SegmentWindow, window_at

MEMORY_BYTES_MAX: Final = 96 << 20
WINDOW_BYTES_MIN: Final = 256 << 10
WINDOWS_AHEAD_MAX: Final = 4
# What replies on their way may still hold of windows that are gone.
IN_REPLIES_BYTES: Final = 16 << 20
# Who has not read for so long does not count for the shares, and what it had may go for what others will
# read.
IDLE_S: Final = 10.0


class WindowMemory:
    """Windows by segment, the bytes they take, and the readers that share them."""

    def __init__(
        self, bytes_max: int = MEMORY_BYTES_MAX, *, window_bytes_max: int = WINDOW_BYTES_MAX
    ) -> None:
        self._bytes_max = bytes_max
        self._window_bytes_max = window_bytes_max
        self._by_segment: dict[bytes, list[SegmentWindow]] = {}
        self._used: OrderedDict[int, SegmentWindow] = OrderedDict()  # by id; the longest unused first
        self._readers: OrderedDict[tuple[TopicPartition, int], float] = OrderedDict()  # when each read last
        self._bytes = 0
        self._reserved = 0
        self._buffers = Buffers()

    @property
    def bytes_held(self) -> int:
        """What windows take that are here or on their way."""
        return self._bytes + self._reserved

    def __len__(self) -> int:
        return len(self._used)

    # --- readers ---

    def goes_on(self, partition: TopicPartition, offset: int) -> bool:
        """Whether somebody's last read ended here."""
        return (partition, offset) in self._readers

    def note_read(self, partition: TopicPartition, offset: int, upper: int, now: float) -> None:
        """Somebody has read from `offset` up to `upper`."""
        readers = self._readers
        readers.pop((partition, offset), None)
        readers[partition, upper] = now
        readers.move_to_end((partition, upper))
        while now - next(iter(readers.values())) > IDLE_S:
            readers.popitem(last=False)

    def _share(self) -> int:
        return self._bytes_max // max(1, len(self._readers))

    def window_bytes(self) -> int:
        """A power of two, so that buffers fit again."""
        size = max(WINDOW_BYTES_MIN, min(self._window_bytes_max, self._share() // 3))
        return 1 << (size.bit_length() - 1)

    def windows_ahead(self) -> int:
        """How many windows a sequential reader may have read for it in advance."""
        return max(0, min(WINDOWS_AHEAD_MAX, self._share() // self.window_bytes() - 2))

    # --- windows ---

    def get(self, segment_id: bytes, offset: int) -> SegmentWindow | None:
        windows = self._by_segment.get(segment_id)
        return None if windows is None else window_at(windows, offset)

    def touch(self, window: SegmentWindow, upper: int, now: float) -> None:
        """Somebody has read of a window, up to `upper`; others may be behind, and come later."""
        window.is_spent = upper >= window.end_offset
        window.used_at = now
        self._used.move_to_end(id(window))

    def reserve(self, size: int, now: float, *, ahead: bool) -> bool:
        """Make room for a window that is to come; False where there is none. What somebody will read only
        later takes no room from what is being read.
        """
        surplus = self.bytes_held + size - self._bytes_max
        if surplus > 0:
            going = []
            for window in self._in_order_of_going(now, ahead=ahead):
                going.append(window)
                surplus -= len(window)
                if surplus <= 0:
                    break
            if surplus > 0 and (ahead or self._reserved):
                return False
            for window in going:
                self._drop(window)
        self._reserved += size
        return True

    def _in_order_of_going(self, now: float, *, ahead: bool) -> Iterator[SegmentWindow]:
        windows = list(self._used.values())
        yield from (window for window in windows if window.is_spent)
        for window in windows:
            if not window.is_spent and (not ahead or now - window.used_at > IDLE_S):
                yield window

    def take_buffer(self, size: int) -> bytearray:
        """For a window that room was reserved for."""
        return self._buffers.take(size)

    def release(self, buffer: bytearray) -> None:
        """A window that room was reserved for does not come."""
        self._reserved -= len(buffer)
        self._keep(buffer)

    def _keep(self, buffer: bytearray) -> None:
        room = max(0, self._bytes_max - self.bytes_held)
        self._buffers.give_back(buffer, bytes_max=room + IN_REPLIES_BYTES)

    def add(self, window: SegmentWindow, buffer: bytearray, now: float) -> None:
        """A window that came in this buffer, or in one of its own that had to be larger."""
        self._reserved -= len(buffer)
        self._bytes += len(window)
        if window.buffer is None:
            self._keep(buffer)
        window.used_at = now
        self._used[id(window)] = window
        insort(
            self._by_segment.setdefault(window.segment.segment_id, []),
            window,
            key=lambda each: each.first_offset,
        )

    def _drop(self, window: SegmentWindow) -> None:
        self._bytes -= len(window)
        if window.buffer is not None:
            self._keep(window.buffer)
        del self._used[id(window)]
        windows = self._by_segment[window.segment.segment_id]
        windows.remove(window)
        if not windows:
            del self._by_segment[window.segment.segment_id]


class Buffers:
    """Memory for windows, used again and again. Called by the event loop only.

    Getting and freeing megabytes costs milliseconds at times: pages are cleared and unmapped, and nobody else
    in the process moves meanwhile. So buffers of windows that are gone are kept for the next ones. One that
    somebody still looks into (a reply that has not left yet) is passed over until that is over: Python tells,
    for a buffer with views cannot be resized.
    """

    def __init__(self) -> None:
        self._free: dict[int, list[bytearray]] = {}
        self.bytes_free = 0

    def take(self, size: int) -> bytearray:
        """A buffer of exactly this size; what is in it is anything."""
        free = self._free.get(size, ())
        for number, buffer in enumerate(free):
            if _is_unseen(buffer):
                self._remove(size, number)
                return buffer
        return bytearray(size)

    def give_back(self, buffer: bytearray, *, bytes_max: int) -> None:
        """For the next one who needs its size; no more than `bytes_max` is kept, the oldest sizes go."""
        size = len(buffer)
        if size > bytes_max:
            return
        while self.bytes_free + size > bytes_max:
            self._remove(next(iter(self._free)), 0)
        self._free.setdefault(size, []).append(buffer)
        self.bytes_free += size

    def _remove(self, size: int, number: int) -> None:
        free = self._free[size]
        del free[number]
        if not free:
            del self._free[size]
        self.bytes_free -= size


def _is_unseen(buffer: bytearray) -> bool:
    """Whether nobody holds a view of it."""
    try:
        last = buffer.pop()
    except BufferError:
        return False
    buffer.append(last)
    return True
