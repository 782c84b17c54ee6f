"""Telling of faults that strangers can cause, without letting them fill the disk with log lines.

So many lines are written per interval; the rest is counted, and the first line after it tells how many there
were.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

LINES_PER_INTERVAL: Final = 20
INTERVAL_SECONDS: Final = 10.0


class Complaints:
    """The lines of one logger about one kind of fault."""

    def __init__(self, loop: asyncio.AbstractEventLoop, log: logging.Logger, level: int) -> None:
        self._loop = loop
        self._log = log
        self._level = level
        self._interval_ends = 0.0
        self._lines = 0

    def write(self, text: str, *values: object, error: BaseException | None = None) -> None:
        """Write a line, with the traceback of `error`, if there may be another one now."""
        now = self._loop.time()
        if now >= self._interval_ends:
            if self._lines > LINES_PER_INTERVAL:
                self._log.log(self._level, "%d more lines like these", self._lines - LINES_PER_INTERVAL)
            self._interval_ends = now + INTERVAL_SECONDS
            self._lines = 0
        self._lines += 1
        if self._lines <= LINES_PER_INTERVAL:
            self._log.log(self._level, text, *values, exc_info=error)
