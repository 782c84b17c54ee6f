"""The descriptor table of a simulated process: what `select` would be asked about.

Level-triggered, like the real thing: a watched socket that stays ready is reported in every round. Only
sockets that were stirred since (something arrived, room was made, a watch was added) are asked, so idle
ones cost nothing.
"""

import errno
import heapq
from asyncio import Handle
from typing import Final, Literal, Protocol

# Above any descriptor of a real process (the kernel's default ceiling is 2^20): a mix-up fails at once.
FIRST_DESCRIPTOR: Final = 1 << 21

Side = Literal["reader", "writer"]


class Pollable(Protocol):
    """Something with a descriptor, as select would see it."""

    def readable(self) -> bool: ...

    def writable(self) -> bool: ...


class Watch:
    """Who wants to hear of one descriptor."""

    __slots__ = ("reader", "writer")

    def __init__(self) -> None:
        self.reader: Handle | None = None
        self.writer: Handle | None = None


class DescriptorTable:
    """Open sockets by number, and who watches them."""

    def __init__(self) -> None:
        self._open: dict[int, Pollable] = {}
        self._free: list[int] = []
        self._watches: dict[int, Watch] = {}
        self.stirred: dict[int, None] = {}
        """Those that may be ready."""

    def open(self, pollable: Pollable) -> int:
        """The lowest free number, as a kernel gives it."""
        number = heapq.heappop(self._free) if self._free else FIRST_DESCRIPTOR + len(self._open)
        self._open[number] = pollable
        return number

    def close(self, number: int) -> bool:
        """Free the number. True when somebody still watched it and would hear of a stranger's next."""
        if self._open.pop(number, None) is None:
            return False
        heapq.heappush(self._free, number)
        return self._watches.pop(number, None) is not None

    def stir(self, number: int) -> None:
        """The socket may have become ready."""
        if number in self._watches:
            self.stirred[number] = None

    def watch(self, number: int, side: Side, handle: Handle) -> None:
        """Report readiness of one side to `handle`, in place of any before it."""
        if number not in self._open:
            raise OSError(errno.EBADF, f"{number} is not an open descriptor of this process")
        watch = self._watches.setdefault(number, Watch())
        before: Handle | None = getattr(watch, side)
        if before is not None:
            before.cancel()
        setattr(watch, side, handle)
        self.stirred[number] = None

    def unwatch(self, number: int, side: Side) -> bool:
        """True when it was watched."""
        watch = self._watches.get(number)
        before: Handle | None = getattr(watch, side, None)
        if watch is None or before is None:
            return False
        before.cancel()
        setattr(watch, side, None)
        if watch.reader is None and watch.writer is None:
            del self._watches[number]
        return True

    def unwatch_all(self) -> None:
        self._watches.clear()
        self.stirred.clear()

    def is_any_ready(self) -> bool:
        """Forgets what turned out not to be ready, as far as it looks."""
        for number in list(self.stirred):
            watch = self._watches.get(number)
            if watch is not None:
                pollable = self._open[number]
                if watch.reader is not None and pollable.readable():
                    return True
                if watch.writer is not None and pollable.writable():
                    return True
            del self.stirred[number]
        return False

    def ready(self) -> list[Handle]:
        """Handles to run now; forgets what turned out not to be ready."""
        if not self.stirred:
            return []
        handles: list[Handle] = []
        for number in list(self.stirred):
            found = len(handles)
            watch = self._watches.get(number)
            if watch is not None:
                pollable = self._open[number]
                if watch.reader is not None and pollable.readable():
                    handles.append(watch.reader)
                if watch.writer is not None and pollable.writable():
                    handles.append(watch.writer)
            if len(handles) == found:
                del self.stirred[number]
        return handles
