"""Somebody who does not answer: said once, counted, said again now and then, and when it is over.

Whoever tries again and again would fill a log with one sentence; whoever stays silent leaves the operator to
guess. An Outage is one such somebody, seen by one who tries.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

AGAIN_S: Final = 300.0
"""How often an outage that lasts is told."""


class Outage:
    """The attempts to reach `what`; `now_s` is a monotonic clock."""

    __slots__ = ("_level", "_log", "_now_s", "_since", "_told_at", "attempts", "what")

    def __init__(
        self, now_s: Callable[[], float], log: logging.Logger, what: str, *, level: int = logging.WARNING
    ) -> None:
        self._now_s = now_s
        self._log = log
        self._level = level
        self.what = what
        self.attempts = 0
        self._since = self._told_at = 0.0

    def failed(self, why: object) -> None:
        """An attempt failed."""
        now = self._now_s()
        self.attempts += 1
        if self.attempts == 1:
            self._since = self._told_at = now
            self._log.log(self._level, "%s does not answer, and is tried again: %s", self.what, why)
        elif now - self._told_at >= AGAIN_S:
            self._told_at = now
            self._log.log(
                self._level,
                "%s has not answered for %d s, in %d attempts: %s",
                *(self.what, int(now - self._since), self.attempts, why),
            )

    def over(self) -> None:
        """An attempt went well; nothing to say where none had failed."""
        if self.attempts:
            self._log.log(
                self._level,
                "%s answers again, after %.1f s and %d failed attempts",
                *(self.what, self._now_s() - self._since, self.attempts),
            )
            self.attempts = 0
