"""Log lines about faults that strangers can cause or that repeat, so that they can't fill the disk.

So many lines are written per interval; the rest is counted, and the first line after it tells how many there
were. Whoever logs something that a client, a full disk or a dead peer can bring about again and again has one
LimitedLog for each kind of fault.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

LINES_PER_INTERVAL: Final = 20
INTERVAL_SECONDS: Final = 10.0


class LimitedLog:
    """The lines of one logger about one kind of fault; `now_s` is a monotonic clock."""

    def __init__(self, now_s: Callable[[], float], log: logging.Logger, level: int) -> None:
        self._now_s = now_s
        self._log = log
        self._level = level
        self._interval_ends = 0.0
        self._lines = 0

    def write(self, text: str, *values: object, error: BaseException | None = None) -> None:
        """Write a line, with the traceback of `error`, if there may be another one now."""
        now = self._now_s()
        if now >= self._interval_ends:
            if self._lines > LINES_PER_INTERVAL:
                self._log.log(
                    self._level, "%d more lines like these", self._lines - LINES_PER_INTERVAL, stacklevel=2
                )
            self._interval_ends = now + INTERVAL_SECONDS
            self._lines = 0
        self._lines += 1
        if self._lines <= LINES_PER_INTERVAL:
            self._log.log(self._level, text, *values, exc_info=error, stacklevel=2)
