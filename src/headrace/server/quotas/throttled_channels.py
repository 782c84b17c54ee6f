"""Connections of clients that are above a quota: they are told so at once, and read again when their time is
over (KIP-219). So a client that does not mind what it is told waits all the same.
"""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headrace.server.context import Peer
    from headrace.transport.connection import Connection

LOOK_S: Final = 60.0
"""How often those that wait for long are looked at: one that closed meanwhile is let go."""


class QuotaType(StrEnum):
    """Kafka's names."""

    PRODUCE = "Produce"
    FETCH = "Fetch"
    REQUEST = "Request"
    CONTROLLER_MUTATION = "ControllerMutation"


class ThrottledChannels:
    """Until when each muted connection waits, by the loop's time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._until: dict[Connection, float] = {}
        self.replies = dict.fromkeys(QuotaType, 0)  # that told somebody to wait
        self.throttle_ms = dict.fromkeys(QuotaType, 0)  # for how long, in all

    def __len__(self) -> int:
        return len(self._until)

    def throttle(self, peer: Peer, throttle_ms: int, quota: QuotaType) -> None:
        """Read nothing from this client for so long. Who asks for somebody else is not made to wait."""
        if throttle_ms <= 0 or peer.is_forwarded:
            return
        connection = peer.connection
        if connection.closed:
            return
        self.replies[quota] += 1
        self.throttle_ms[quota] += throttle_ms
        until = self._loop.time() + throttle_ms / 1000
        before = self._until.get(connection)
        if before is None:
            self._until[connection] = until
            connection.mute()
            self._look_later(connection, until)
        elif until > before:
            self._until[connection] = until

    def _look_later(self, connection: Connection, until: float) -> None:
        self._loop.call_later(min(until - self._loop.time(), LOOK_S), self._look, connection)

    def _look(self, connection: Connection) -> None:
        until = self._until[connection]
        if not connection.closed and until > self._loop.time():
            self._look_later(connection, until)
            return
        del self._until[connection]
        connection.unmute()
