"""A connection over TLS: a handshake before the first frame, and a look at what the kernel no longer has.

A handshake costs a server a millisecond, and anybody may ask for one. So it is done in the turns of newcomers
(`serving_turns`): a slice of each turn of the loop, however many come. One that is not through within
`HANDSHAKE_S` is ended, and sooner where there are too many (`listener`). Everything after it is
`Connection`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from headrace.transport.connection import OTHERS_FIRST, Connection
from headrace.transport.tls import HUNG_UP, TlsError, TlsSocket

HANDSHAKE_S: Final = 10.0
"""A busy client on a bad line needs one second; who takes longer than this only holds a place."""


OnRefused = Callable[[str, str], None]
"""Told of a handshake that failed: whose address, and why."""


class SecureConnection(Connection):
    """A connection whose socket is a TlsSocket. A server calls `accept_handshake` in `start`'s place."""

    __slots__ = ("_answered_at", "_is_late", "_on_refused", "_on_secured", "_tls", "_watches")

    def __init__(self, loop: asyncio.AbstractEventLoop, socket: TlsSocket, **parts: Any) -> None:
        super().__init__(loop, socket, **parts)
        self._tls = socket
        self._on_secured: Callable[[SecureConnection], None] | None = None
        self._on_refused: OnRefused | None = None
        self._is_late: asyncio.TimerHandle | None = None
        self._watches = False  # for room to write, in the handshake
        self._answered_at = 0.0  # what came of the handshake so far

    @property
    def tls(self) -> TlsSocket:
        return self._tls

    # The handshake

    def accept_handshake(
        self, on_secured: Callable[[SecureConnection], None], on_refused: OnRefused | None = None
    ) -> None:
        """Do a server's handshake, then call `on_secured` and serve; or tell `on_refused` why not."""
        self._on_secured, self._on_refused = on_secured, on_refused
        self._is_late = self._loop.call_later(HANDSHAKE_S, self._end_late)
        self._answered_at = self._loop.time()
        self._read_on()

    def peer_is_late_s(self) -> float:
        """For how long the handshake has waited for the peer: not at all while it waits for its turn here."""
        is_waiting = self._is_late is not None and not self._paused & OTHERS_FIRST
        return self._loop.time() - self._answered_at if is_waiting else 0.0

    def _end_late(self) -> None:
        self._limited_log.write("closing %s: no TLS handshake within %d s", self, HANDSHAKE_S)
        self.abort("no TLS handshake in time")

    def _shake_hands(self) -> None:
        try:
            is_through = self._tls.shake_hands()
            self._watch_writer(self._tls.has_unsent)
            if is_through and not self._tls.has_unsent:
                self._secured()
        except OSError as error:
            self._limited_log.write("closing %s: %s", self, error)
            if self._on_refused is not None and isinstance(error, TlsError) and str(error) != HUNG_UP:
                self._on_refused(self.peer[0], str(error))
            self.abort(str(error))
        if not self.closed:
            self._answered_at = self._loop.time()
            self._read_on()

    def _watch_writer(self, watches: bool) -> None:
        if watches is self._watches:
            return
        self._watches = watches
        if watches:
            self._loop.add_writer(self._tls.fileno(), self._shake_hands)
        else:
            self._loop.remove_writer(self._tls.fileno())

    def _secured(self) -> None:
        assert self._is_late is not None
        assert self._on_secured is not None
        self._is_late.cancel()
        on_secured, self._is_late, self._on_secured = self._on_secured, None, None
        on_secured(self)

    def abort(self, reason: str = "") -> None:
        if self._is_late is not None:
            self._is_late.cancel()
            self._is_late = self._on_secured = None
        if not self.closed:
            self._watch_writer(False)
        super().abort(reason)

    # Reading

    def _on_readable(self) -> None:
        if self._is_late is None:
            super()._on_readable()
        else:
            self._queue_up(in_crowd=True)

    def take_turn(self) -> None:
        if self._is_late is None:
            super().take_turn()
        elif not self.closed:
            self._paused &= ~OTHERS_FIRST
            self._shake_hands()

    def _read(self) -> None:
        super()._read()
        if self._reads and self._tls.has_more:
            self._loop.call_soon(self._read_rest)

    def _read_on(self) -> None:
        super()._read_on()
        if self._tls.has_more and self._is_late is None:
            self._loop.call_soon(self._read_rest)

    def _read_rest(self) -> None:
        """Read what the kernel has given already."""
        if self._reads and not self.closed and self._tls.has_more:
            self._on_readable()
