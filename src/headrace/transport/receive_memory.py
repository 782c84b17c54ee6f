"""The memory that frames are received into: shared buffers, and a bound on what unfinished frames hold.

A connection borrows a buffer for one read and gives it back when every frame in it has been handled, so idle
connections hold nothing and a steady load touches the same warm pages. Only a connection that is left with a
part of a frame keeps something: a few bytes are copied out, more of them keep the whole buffer, and those are
counted here.

When too much is held, the connection that asks for more is not read from until others have finished, and TCP
slows its sender down. A peer that sent half a frame and went silent would block the others for good, so while
anyone waits, the holder that has not moved for longest is closed once it has stalled for `stalled_ms_max`.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple, Protocol

from headrace.transport.limits import ReceiveLimits

# How far over its bound the total may go before a connection is closed instead of paused: every connection
# may bring one read's worth along before it notices.
OVERDRAFT: Final = 1.25
CHECK_SECONDS: Final = 1.0


class ReceiveBuffer(NamedTuple):
    """Bytes to receive into, with the view of them that is sliced for every read and every frame."""

    data: bytearray
    view: memoryview


class Holder(Protocol):
    """A connection with an unfinished frame."""

    def resume_for_memory(self) -> None: ...

    def abort(self, reason: str) -> None: ...


class ReceiveMemory:
    """One per process: lends buffers and counts what unfinished frames hold."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: ReceiveLimits | None = None) -> None:
        self._loop = loop
        self.limits = limits or ReceiveLimits()
        self.held_bytes = 0
        self.spare_bytes = 0
        self._spare: dict[int, list[ReceiveBuffer]] = {}
        # Holder -> (bytes, when it last moved), the stalest first.
        self._holders: dict[Holder, tuple[int, float]] = {}
        self._waiting: dict[Holder, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def take(self, size_min: int = 0) -> ReceiveBuffer:
        """A buffer of at least `size_min` bytes: a spare one where there is one of its size."""
        size = self.limits.buffer_bytes
        while size < size_min:
            size *= 2
        spare = self._spare.get(size)
        if spare:
            self.spare_bytes -= size
            return spare.pop()
        data = bytearray(size)
        return ReceiveBuffer(data, memoryview(data))

    def take_exactly(self, size: int) -> ReceiveBuffer:
        """A buffer for a frame that is larger than any spare one."""
        data = bytearray(size)
        return ReceiveBuffer(data, memoryview(data))

    def give_back(self, buffer: ReceiveBuffer) -> None:
        """The buffer is free again: nothing may use a view of it from here on."""
        size = len(buffer.data)
        if self.spare_bytes + size <= self.limits.spare_bytes_max and self._is_pooled_size(size):
            self._spare.setdefault(size, []).append(buffer)
            self.spare_bytes += size

    def _is_pooled_size(self, size: int) -> bool:
        base = self.limits.buffer_bytes
        return (
            size <= self.limits.buffer_bytes_expected_max
            and size % base == 0
            and (size // base).bit_count() == 1
        )

    def hold(self, holder: Holder, size: int) -> bool:
        """Count `size` bytes for a holder that moved. False: it pauses until `resume_for_memory`."""
        before = self._holders.pop(holder, None)
        self.held_bytes += size - (before[0] if before else 0)
        self._holders[holder] = (size, self._loop.time())
        if self.held_bytes <= self.limits.unfinished_bytes_max:
            return True
        if self.held_bytes > self.limits.unfinished_bytes_max * OVERDRAFT:
            holder.abort("too much memory is held by unfinished frames")
            return False
        self._waiting[holder] = None
        if self._timer is None:
            self._timer = self._loop.call_later(CHECK_SECONDS, self._close_stalled)
        return False

    def release(self, holder: Holder) -> None:
        """The holder's frame is finished, or its connection is gone."""
        before = self._holders.pop(holder, None)
        if before is None:
            return
        self.held_bytes -= before[0]
        self._waiting.pop(holder, None)
        if self._waiting:
            self._wake()

    def _wake(self) -> None:
        room = self.limits.unfinished_bytes_max - self.held_bytes
        while self._waiting and room >= 0:
            holder = next(iter(self._waiting))
            del self._waiting[holder]
            # A buffer grows by as much as it holds: count that before the next one is let in.
            room -= self._holders[holder][0]
            holder.resume_for_memory()

    def _close_stalled(self) -> None:
        self._timer = None
        stalled_before = self._loop.time() - self.limits.stalled_ms_max / 1000
        for holder, (_, moved_at) in list(self._holders.items()):
            if moved_at > stalled_before or not self._waiting:
                break
            holder.abort("an unfinished frame stalled while others waited for memory")
        if self._waiting:
            self._timer = self._loop.call_later(CHECK_SECONDS, self._close_stalled)
