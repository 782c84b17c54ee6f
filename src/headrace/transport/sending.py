"""One connection's way out: its outbox, when that is offered to the kernel, and how much of it at a time.

Replies are pushed, and offered together with `flush`. A socket that is full is watched for room. Long replies
leave in pieces, and connections take turns with them (`sending_turns`). Of some it is told when they leave.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from headrace.base.chunks import Chunks
from headrace.transport.limits import ConnectionLimits
from headrace.transport.network import Socket
from headrace.transport.outbox import Outbox
from headrace.transport.sending_turns import SendingTurns

# A peer that got a long reply gets short ones among them, too (the rest of a segment, nothing new yet). After
# so many of them in a row it counts as one that waits for short ones.
REPLIES_UNTIL_MODEST: Final = 16


class SendWatch(Protocol):
    """Somebody who wants to know when a reply leaves."""

    response_bytes: int
    """How large it is, once that is known."""

    def offered(self) -> None:
        """The socket is given bytes of it. Told again with each piece of a long one."""
        ...

    def sent(self) -> None:
        """The socket has taken all of it."""
        ...


class _Watched:
    """A reply on its way: how many bytes are before it, and how many until it is through."""

    __slots__ = ("begins_in", "ends_in", "watch")

    def __init__(self, begins_in: int, ends_in: int, watch: SendWatch) -> None:
        self.begins_in = begins_in
        self.ends_in = ends_in
        self.watch = watch


class Sending:
    """Sends what is in `outbox`. `on_sent` hears how many bytes the kernel took, `on_failed` why the peer
    cannot be sent anything more.
    """

    __slots__ = (
        "_is_closed",
        "_is_planned",
        "_is_queued",
        "_limits",
        "_loop",
        "_on_failed",
        "_on_sent",
        "_replies_until_modest",
        "_turns",
        "_watched",
        "_watches",
        "outbox",
        "socket",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        socket: Socket,
        limits: ConnectionLimits,
        turns: SendingTurns,
        *,
        on_sent: Callable[[int], None],
        on_failed: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self.socket = socket
        self._limits = limits
        self._turns = turns
        self._on_sent = on_sent
        self._on_failed = on_failed
        self.outbox = Outbox()
        self._replies_until_modest = 0  # more than that: the peer reads in bulk
        self._is_planned = False
        self._watches = False  # the socket is full: the loop tells us when it can be written
        self._is_queued = False  # there is more to send than fits in one turn, and others may be before us
        self._is_closed = False
        self._watched: deque[_Watched] = deque()

    def push(self, chunks: Chunks, size: int, watch: SendWatch | None = None) -> None:
        """Put a reply of `size` bytes behind the others."""
        if size > self._limits.shared_turn_bytes_max:
            self._replies_until_modest = REPLIES_UNTIL_MODEST
        elif self._replies_until_modest:
            self._replies_until_modest -= 1
        self.outbox.push(chunks, size)
        if watch is not None:
            watch.response_bytes = size
            self._watched.append(_Watched(self.outbox.size - size, self.outbox.size, watch))
            if not size:
                self._tell_taken(0)  # there is no reply

    def note_read(self) -> None:
        """The peer has asked for something: where its replies are short, others' pieces are small a while."""
        if not self._replies_until_modest:
            self._turns.note_short()

    def flush_soon(self) -> None:
        """Flush with whatever else is pushed in this turn of the loop."""
        if not self._is_planned:
            self._is_planned = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Offer the outbox to the kernel now, unless it is known to be full or it is others' turn."""
        self._is_planned = False
        if not self._is_closed and not self._watches and not self._is_queued:
            self._on_writable()

    def take_turn(self) -> None:
        """It is this connection's turn to send a piece."""
        self._is_queued = False
        if not self._is_closed:
            self._send()

    def close(self) -> None:
        """What was not sent is lost."""
        self._is_closed = True
        if self._watches:
            self._loop.remove_writer(self.socket.fileno())
        self.outbox.clear()
        self._watched.clear()
        self._on_sent = self._on_failed = _ignore  # or only garbage collection would find the connection

    def _on_writable(self) -> None:
        if self.outbox.size > self._limits.shared_turn_bytes_max and self._turns.are_wanted:
            self._plan(has_room=True)
        else:
            self._send()

    def _send(self) -> None:
        limits, outbox = self._limits, self.outbox
        piece_bytes = limits.shared_turn_bytes_max if self._turns.begin_piece() else limits.turn_bytes_max
        try:
            flush = self._flush_watched if self._watched else outbox.flush
            taken = flush(self.socket, piece_bytes) if outbox.size else 0
        except (OSError, ValueError, MemoryError) as error:
            # The peer is gone, a file of a reply was closed meanwhile, or there is no memory to send with.
            self._on_failed(str(error))
            return
        except Exception as error:
            # A fault of our own, told by the loop; the socket has room, so that it would come again at once.
            self._on_failed(repr(error))
            raise
        if outbox.size or self._watches:
            self._plan(has_room=not outbox.is_blocked)
        self._on_sent(taken)

    def _flush_watched(self, socket: Socket, piece_bytes: int) -> int:
        for each in self._watched:
            if each.begins_in < piece_bytes:
                each.watch.offered()
        taken = self.outbox.flush(socket, piece_bytes)
        self._tell_taken(taken)
        return taken

    def _tell_taken(self, taken: int) -> None:
        watched = self._watched
        for each in watched:
            each.begins_in -= taken
            each.ends_in -= taken
        while watched and watched[0].ends_in <= 0:
            watched.popleft().watch.sent()

    def _plan(self, *, has_room: bool) -> None:
        """What is still unsent leaves in a later turn, or when the socket has room again."""
        unsent = self.outbox.size
        if unsent and has_room:
            self._is_queued = True
            self._turns.join(self)
        watches = bool(unsent) and not has_room
        if watches is not self._watches:
            self._watches = watches
            if watches:
                self._loop.add_writer(self.socket.fileno(), self._on_writable)
            else:
                self._loop.remove_writer(self.socket.fileno())


def _ignore(_: object) -> None: ...
