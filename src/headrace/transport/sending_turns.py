"""Whose turn it is to send much: one connection at a time, a piece at a time, and the loop turns in between.

Giving the kernel a megabyte takes half a millisecond, and whoever sends a small request meanwhile waits for
it. A reader of a large backlog always has more to be sent, and ten of them ten times as much. So a reply
longer than a piece (`ConnectionLimits.shared_turn_bytes_max`) leaves piece by piece: connections whose socket
would take more stand in one queue, and each turn of the loop sends one piece of the first of them. What the
loop finds readable is served between any two pieces, however many readers there are. Short replies never
queue.

Pieces cost something: a megabyte in four of them takes the broker a quarter more CPU. So they are small only
while somebody is there who would wait: for some time after a request with a short reply.

A connection whose socket is full is not in the queue; it joins again when there is room.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol

SMALL_PIECES: Final = 64
"""So many after a short reply the next short one is still expected: about 10 ms of sending."""


class QueuedSender(Protocol):
    """What the queue needs of a connection."""

    def take_turn(self) -> None:
        """Send a piece now, and join again if there is more and the kernel would take it."""


class SendingTurns:
    """The queue of one loop's connections, first come first served."""

    __slots__ = ("_loop", "_queue", "_small_pieces")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queue: deque[QueuedSender] = deque()
        self._small_pieces = 0

    def note_short(self) -> None:
        """Somebody was read from whose replies are short."""
        self._small_pieces = SMALL_PIECES

    def begin_piece(self) -> bool:
        """A piece is about to be sent: whether it is to be small, because somebody with short replies is
        likely to wait meanwhile.
        """
        if not self._small_pieces:
            return False
        self._small_pieces -= 1
        return True

    @property
    def are_wanted(self) -> bool:
        """Whether somebody waits for a turn, so that a newcomer with much to send has to queue."""
        return bool(self._queue)

    def join(self, sender: QueuedSender) -> None:
        """Stand at the end of the queue. A sender joins once, and again after its turn."""
        if not self._queue:
            self._loop.call_soon(self._next)
        self._queue.append(sender)

    def _next(self) -> None:
        sender = self._queue.popleft()
        if self._queue:  # where it is empty, joining it again plans the next turn
            self._loop.call_soon(self._next)
        sender.take_turn()
