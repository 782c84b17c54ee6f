"""The memory that frames are received into: shared buffers, and a bound on what unfinished frames hold.

A connection borrows a buffer for one read and gives it back when every frame in it has been handled, so idle
connections hold nothing and a steady load touches the same warm pages. Only a connection that is left with a
part of a frame keeps something: a few bytes are copied out, more of them keep the whole buffer, and those are
counted here.

When too much is held, those who do not move give way first: a frame of which little has come for
`idle_ms_max` loses its connection, the stalest first, until there is room again. Where that is not enough,
connections with a long unfinished frame are not read from and TCP slows their senders down, all but one: the
favoured one may go on until its frame is finished, whatever it takes, and then the next one. So all of them
finish in the end, where equal shares would leave all of them stuck. A favoured frame that does not move, or
is not done within `stalled_ms_max`, while others wait loses its connection, too.

Short requests do not wait for long ones. A whole frame in one read is never held up. Frames
that are announced to be short have a reserve of their own beyond the bound (`RESERVE`), and so have frames
from an address that holds little where another one holds much.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from headrace.base.large_memory import Room, take_room
from headrace.telemetry.limited_log import LimitedLog
from headrace.transport.limits import ReceiveLimits

log = logging.getLogger(__name__)

# How far over its bound the total may go before newcomers are closed instead of paused: every connection may
# bring one read's worth along before it has an unfinished frame to be paused for.
OVERDRAFT: Final = 1.25
# What short frames may hold beyond it, and beyond that who has less than its address's share.
RESERVE: Final = 0.25
CHECK_SECONDS: Final = 1.0
# Looking for who gives way takes a walk over all holders: not for every read.
LOOK_SECONDS: Final = 0.05
# Where some must give way, more than one does: so much is free again.
ROOM_AFTER: Final = 0.9
# A frame has moved when so much more of it is there: a byte now and then is no progress.
MOVED_BYTES: Final = 4096
# A frame up to this size is short: the usual limit of a producer's request (max.request.size).
SHORT_FRAME_BYTES: Final = 1024 * 1024
# A rest of a frame up to this size is copied out, so that its connection keeps no whole buffer.
STASH_BYTES_MAX: Final = 4096
# With this part of the bound in use most rests are: slower for their connections, but many more find room.
TIGHT_FROM: Final = 0.5


class ReceiveBuffer(NamedTuple):
    """Bytes to receive into, with the view of them that is sliced for every read and every frame."""

    data: Room
    view: memoryview


class Holder(Protocol):
    """A connection with an unfinished frame."""

    @property
    def peer(self) -> tuple[str, int]:
        """Its address and port."""

    @property
    def awaits_peer(self) -> bool:
        """Whether it is the peer's turn to move, and not ours."""

    def resume_for_memory(self) -> None: ...

    def abort(self, reason: str) -> None: ...


class _Held:
    """What one holder has: bytes of memory, how much of its frame is there, and when it last moved."""

    __slots__ = ("is_short", "moved_at", "received", "size")

    def __init__(self, moved_at: float) -> None:
        self.size = self.received = 0
        self.is_short = False  # its frame is announced to be short
        self.moved_at = moved_at


def _pooled_sizes(limits: ReceiveLimits) -> Iterator[int]:
    size = limits.buffer_bytes
    while size <= limits.buffer_bytes_expected_max:
        yield size
        size *= 2


class ReceiveMemory:
    """One per process: lends buffers and counts what unfinished frames hold."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: ReceiveLimits | None = None) -> None:
        self._loop = loop
        self.limits = limits or ReceiveLimits()
        self.held_bytes = 0
        self.held_by_short_bytes = 0
        self.is_short = False  # more is held than may be
        self.stash_bytes_max = STASH_BYTES_MAX
        """The largest rest of a frame that is copied out of its buffer."""
        self.spare_bytes = 0
        self._spare: dict[int, list[ReceiveBuffer]] = {size: [] for size in _pooled_sizes(self.limits)}
        self._holders: dict[Holder, _Held] = {}  # the stalest first
        self._by_address: dict[str, int] = {}
        self._waiting: dict[Holder, None] = {}
        self._favoured: Holder | None = None
        self._favoured_since = 0.0
        self._look_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._limited_log = LimitedLog(loop.time, log, logging.WARNING)

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
        data = take_room(size)
        return ReceiveBuffer(data, memoryview(data))

    def give_back(self, buffer: ReceiveBuffer) -> None:
        """The buffer is free again: nothing may use a view of it from here on."""
        size = len(buffer.data)
        spare = self._spare.get(size)
        if spare is not None and self.spare_bytes + size <= self.limits.spare_bytes_max:
            spare.append(buffer)
            self.spare_bytes += size

    def may_read(self, holder: Holder) -> bool:
        """Whether a connection may be read from; where not, it waits for `resume_for_memory`."""
        if not self.is_short or holder is self._favoured:
            return True
        held = self._holders.get(holder)
        return held is None or self._is_modest(holder, held) or self._favour_or_queue(holder)

    def hold(self, holder: Holder, size: int, *, received: int = 0, frame_bytes: int = 0) -> bool:
        """Count `size` bytes of memory for a holder, of whose frame `received` bytes of `frame_bytes` are
        there. False: it must pause until `resume_for_memory`.
        """
        held = self._holders.get(holder)
        if held is None:
            held = self._holders[holder] = _Held(self._loop.time())
        self._count(holder, held, size, is_short=0 < frame_bytes <= SHORT_FRAME_BYTES)
        if not held.received <= received < held.received + MOVED_BYTES:  # less: it is another frame
            self._holders[holder] = self._holders.pop(holder)
            held.received, held.moved_at = received, self._loop.time()
        if not self.is_short or holder is self._favoured:
            return True
        self._make_room()
        if holder not in self._holders:
            return False  # it was itself one of those who gave way
        if not self.is_short or self._is_modest(holder, held):
            return True
        if self._is_far_too_much(held):
            self._close(holder, "too much memory is held by unfinished frames")
            return False
        return self._favour_or_queue(holder)

    def _count(self, holder: Holder, held: _Held, size: int, *, is_short: bool) -> None:
        by = size - held.size
        self.held_bytes += by
        self.is_short = self.held_bytes > self.limits.unfinished_bytes_max
        is_tight = self.held_bytes > self.limits.unfinished_bytes_max * TIGHT_FROM
        self.stash_bytes_max = self.limits.buffer_bytes // 2 if is_tight else STASH_BYTES_MAX
        self.held_by_short_bytes += size * is_short - held.size * held.is_short
        held.size, held.is_short = size, is_short
        address = holder.peer[0]
        left = self._by_address.get(address, 0) + by
        if left:
            self._by_address[address] = left
        else:
            self._by_address.pop(address, None)

    def _is_modest(self, holder: Holder, held: _Held) -> bool:
        """Whether there is a reserve for this one."""
        bound = self.limits.unfinished_bytes_max
        if held.is_short and self.held_by_short_bytes - held.size <= bound * RESERVE:
            return True
        addresses = self._by_address
        if len(addresses) < 2 or self.held_bytes > bound * (OVERDRAFT + 2 * RESERVE):
            return False
        return addresses[holder.peer[0]] <= bound * RESERVE / len(addresses)

    def _is_far_too_much(self, held: _Held) -> bool:
        """Whether pausing is not enough: the others of its kind have more than they may have together."""
        others = self.held_bytes - (self._holders[self._favoured].size if self._favoured else held.size)
        bound = self.limits.unfinished_bytes_max
        if held.is_short:
            return others > bound * (OVERDRAFT + 2 * RESERVE)
        return others - self.held_by_short_bytes > bound * OVERDRAFT

    def release(self, holder: Holder) -> None:
        """The holder's frame is finished, or its connection is gone."""
        held = self._holders.pop(holder, None)
        if held is None:
            return
        self._count(holder, held, 0, is_short=False)
        self._waiting.pop(holder, None)
        if holder is self._favoured:
            self._favoured = None
        if self._waiting:
            self._wake()

    def _make_room(self) -> None:
        """Close those who do not move, the stalest first, until there is room for some who do."""
        now = self._loop.time()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_SECONDS
        patience_ends = now - self.limits.idle_ms_max / 1000
        enough = self.limits.unfinished_bytes_max * ROOM_AFTER
        for holder, held in list(self._holders.items()):
            if held.moved_at > patience_ends or self.held_bytes <= enough:
                break
            if holder.awaits_peer and holder is not self._favoured:
                self._close(holder, "an unfinished frame did not move while others needed its memory")

    def _close(self, holder: Holder, reason: str) -> None:
        self._limited_log.write(
            "closing %s: %s (%d MiB are held by %d connections). Raise queued.max.request.bytes where this "
            "is the usual load",
            *(holder, reason, self.held_bytes >> 20, len(self._holders)),
        )
        holder.abort(reason)

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
            room -= self._holders[holder].size
            if self._favoured is None:
                self._favour(holder)
            elif room < 0:
                return
            del self._waiting[holder]
            holder.resume_for_memory()

    def _close_stalled(self) -> None:
        self._timer = None
        if self._waiting:
            self._close_favoured_if_slow()
        if self._waiting:
            self._make_room()
        if self._waiting:
            self._timer = self._loop.call_later(CHECK_SECONDS, self._close_stalled)

    def _close_favoured_if_slow(self) -> None:
        if self._favoured is None:
            return
        now, limits = self._loop.time(), self.limits
        moved_at = max(self._holders[self._favoured].moved_at, self._favoured_since)
        if (
            self._favoured_since <= now - limits.stalled_ms_max / 1000
            or moved_at <= now - limits.idle_ms_max / 1000
        ):
            self._close(self._favoured, "an unfinished frame took too long while others waited for memory")
