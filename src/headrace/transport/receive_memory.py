"""The memory that frames are received into: shared buffers, and a bound on what unfinished frames hold.

A connection borrows a buffer for one read and gives it back when every frame in it has been handled, so idle
connections hold nothing and a steady load touches the same warm pages. Only a connection that is left with a
part of a frame keeps something: a few bytes are copied out, more of them keep the whole buffer, and those are
counted here.

When too much is held, connections with an unfinished frame are not read from and TCP slows their senders
down, all but one: the favoured one may go on until its frame is finished, whatever it takes, and then the
next one. So all of them finish in the end, where equal shares would leave all of them stuck. Whoever has a
whole frame in one read is never held up. Peers that stop or trickle would hold up the others for good: while
anyone waits, a holder that has not moved for `stalled_ms_max`, and a favoured one that is not done by then,
is closed.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple, Protocol

from headrace.transport.limits import ReceiveLimits

# How far over its bound the total may go before newcomers are closed instead of paused: every connection may
# bring one read's worth along before it has an unfinished frame to be paused for.
OVERDRAFT: Final = 1.25
CHECK_SECONDS: Final = 1.0
# A rest of a frame up to this size is copied out, so that its connection keeps no whole buffer.
STASH_BYTES_MAX: Final = 4096
# With this part of the bound in use most rests are: slower for their connections, but many more find room.
TIGHT_FROM: Final = 0.5


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
        self._favoured: Holder | None = None
        self._favoured_since = 0.0
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

    @property
    def stash_bytes_max(self) -> int:
        """The largest rest of a frame that is copied out of its buffer."""
        is_tight = self.held_bytes > self.limits.unfinished_bytes_max * TIGHT_FROM
        return self.limits.buffer_bytes // 2 if is_tight else STASH_BYTES_MAX

    @property
    def is_short(self) -> bool:
        return self.held_bytes > self.limits.unfinished_bytes_max

    def may_read(self, holder: Holder) -> bool:
        """Whether a connection may be read from; where not, it waits for `resume_for_memory`."""
        if not self.is_short or holder not in self._holders or holder is self._favoured:
            return True
        return self._favour_or_queue(holder)

    def hold(self, holder: Holder, size: int) -> bool:
        """Count `size` bytes for a holder that moved. False: it must pause until `resume_for_memory`."""
        before = self._holders.pop(holder, None)
        self.held_bytes += size - (before[0] if before else 0)
        self._holders[holder] = (size, self._loop.time())
        if not self.is_short or holder is self._favoured:
            return True
        others_bytes = self.held_bytes - (self._holders[self._favoured][0] if self._favoured else size)
        if others_bytes > self.limits.unfinished_bytes_max * OVERDRAFT:
            holder.abort("too much memory is held by unfinished frames")
            return False
        return self._favour_or_queue(holder)

    def release(self, holder: Holder) -> None:
        """The holder's frame is finished, or its connection is gone."""
        before = self._holders.pop(holder, None)
        if before is None:
            return
        self.held_bytes -= before[0]
        self._waiting.pop(holder, None)
        if holder is self._favoured:
            self._favoured = None
        if self._waiting:
            self._wake()

    def _favour_or_queue(self, holder: Holder) -> bool:
        if self._favoured is None:
            self._favour(holder)
            return True
        self._waiting[holder] = None
        if self._timer is None:
            self._timer = self._loop.call_later(CHECK_SECONDS, self._close_stalled)
        return False

    def _favour(self, holder: Holder) -> None:
        self._favoured = holder
        self._favoured_since = self._loop.time()

    def _wake(self) -> None:
        """Let those in that there is room for, and one in any case."""
        room = self.limits.unfinished_bytes_max - self.held_bytes
        while self._waiting:
            holder = next(iter(self._waiting))
            # A buffer grows by as much as it holds: there must be room for that.
            room -= self._holders[holder][0]
            if self._favoured is None:
                self._favour(holder)
            elif room < 0:
                return
            del self._waiting[holder]
            holder.resume_for_memory()

    def _close_stalled(self) -> None:
        self._timer = None
        patience_ends = self._loop.time() - self.limits.stalled_ms_max / 1000
        if self._favoured is not None and self._favoured_since <= patience_ends and self._waiting:
            self._favoured.abort("an unfinished frame took too long while others waited for memory")
        for holder, (_, moved_at) in list(self._holders.items()):
            if moved_at > patience_ends or not self._waiting:
                break
            if holder not in self._waiting:
                holder.abort("an unfinished frame stalled while others waited for memory")
        if self._waiting:
            self._timer = self._loop.call_later(CHECK_SECONDS, self._close_stalled)
