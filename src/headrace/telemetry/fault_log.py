"""Faults of our own, said once: what nobody expected, where it happened, and how often since.

A fault that a request, a full memory or a broken peer brings about may come a thousand times a second. The
first of its kind is written with its traceback; those like it are counted, and their number is told once in
a while, as long as they come. Two faults are alike where the same exception comes from the same line.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

INTERVAL_SECONDS: Final = 60.0
KINDS_MAX: Final = 256
"""More kinds than a node can have faults; beyond them all are forgotten, and said again."""

Kind = tuple[str, type[BaseException], str, int]


class FaultLog:
    """The faults of one node; `now_s` is a monotonic clock."""

    def __init__(self, now_s: Callable[[], float], log: logging.Logger) -> None:
        self.count = 0
        self._now_s = now_s
        self._log = log
        self._said: dict[Kind, tuple[float, int]] = {}  # when, and how many there were since

    def note(self, what: str, error: BaseException, about: object = "") -> None:
        """Something failed; `about` says in the first line of a kind who or what was concerned."""
        self.count += 1
        kind = (what, type(error), *_place(error))
        now = self._now_s()
        said_at, since = self._said.get(kind, (None, 0))
        if said_at is None:
            if len(self._said) >= KINDS_MAX:
                self._said.clear()
            self._said[kind] = (now, 0)
            # Without memory there is none for a traceback.
            trace = None if isinstance(error, MemoryError) else error
            self._log.error("%s: %r %s", what, error, about, exc_info=trace)
        elif now - said_at >= INTERVAL_SECONDS:
            self._said[kind] = (now, 0)
            self._log.error("%s: %r, as %d times since this was last said", what, error, since + 1)
        else:
            self._said[kind] = (said_at, since + 1)


def _place(error: BaseException) -> tuple[str, int]:
    """The line that raised it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return ("", 0) if trace is None else (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
