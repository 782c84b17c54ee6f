"""Telling of peers that break the protocol, without letting them fill the disk with log lines.

So many lines are written per interval; the rest is counted, and the first line of the next interval tells how
many there were.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

log = logging.getLogger(__name__)

LINES_PER_INTERVAL: Final = 20
INTERVAL_SECONDS: Final = 10.0


class Complaints:
    """One per listener."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._interval_ends = 0.0
        self._lines = 0

    def about(self, peer: object, fault: object) -> None:
        now = self._loop.time()
        if now >= self._interval_ends:
            if self._lines > LINES_PER_INTERVAL:
                log.info(
                    "%d more connections were closed for broken requests", self._lines - LINES_PER_INTERVAL
                )
            self._interval_ends = now + INTERVAL_SECONDS
            self._lines = 0
        self._lines += 1
        if self._lines <= LINES_PER_INTERVAL:
            log.info("closed %s for a broken request: %s", peer, fault)
