"""Closing connections that have been quiet for too long, at a cost that does not grow with their traffic.

Time passes in ticks of a fraction of the idle limit. A connection notes the current tick when it is active
(one attribute copied, no clock read, no timer moved) and sits in the bucket of the tick when it would expire.
When that tick comes, a connection that was active since is put into the bucket of its new expiry; the rest
are closed.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

# The limit is kept to one part in this many: a connection is closed after 1 to 1 + 1/16 times its idle limit.
TICKS: Final = 16


class Watched(Protocol):
    """A connection as far as its idleness goes."""

    active_at: int

    @property
    def waits_for_us(self) -> bool: ...

    def abort(self, reason: str) -> None: ...


class IdleReaper:
    """The ticks, and the connections that wait for theirs. A limit of 0 or less closes nobody."""

    def __init__(self, loop: asyncio.AbstractEventLoop, idle_ms_max: int) -> None:
        self._loop = loop
        self._tick_seconds = idle_ms_max / 1000 / TICKS
        # Dicts as ordered sets: a simulated run closes connections in the same order each time.
        self._buckets: list[dict[Watched, None]] = [{} for _ in range(TICKS + 1)]
        self._place: dict[Watched, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.now = 0

    def watch(self, connection: Watched) -> None:
        if self._tick_seconds <= 0:
            return
        connection.active_at = self.now
        self._put(connection)
        if self._timer is None:
            self._timer = self._loop.call_later(self._tick_seconds, self._tick)

    def forget(self, connection: Watched) -> None:
        place = self._place.pop(connection, None)
        if place is not None:
            self._buckets[place].pop(connection, None)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _put(self, connection: Watched) -> None:
        # One more than the limit: the tick that is under way counts for nothing.
        place = (connection.active_at + TICKS + 1) % (TICKS + 1)
        self._place[connection] = place
        self._buckets[place][connection] = None

    def _tick(self) -> None:
        self._timer = None
        self.now += 1
        place = self.now % (TICKS + 1)
        due, self._buckets[place] = self._buckets[place], {}
        for connection in due:
            del self._place[connection]
            if connection.waits_for_us:
                connection.active_at = self.now
            if self.now - connection.active_at > TICKS:
                connection.abort("idle for too long")
            else:
                self._put(connection)
        if self._place:
            self._timer = self._loop.call_later(self._tick_seconds, self._tick)
