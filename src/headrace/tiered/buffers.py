"""Memory for windows, used again and again.

Getting and freeing megabytes costs milliseconds at times: pages are cleared and unmapped, and nobody else in
the process moves meanwhile. So buffers of windows that are gone are kept for the next ones. One that somebody
still looks into (a reply that has not left yet) is passed over until that is over: Python tells, for a buffer
with views cannot be resized.
"""


class Buffers:
    """Called by the event loop only."""

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
