"""How much of topics a console reads at once, for everybody together: its memory is bounded by it.

A page waits for its turn, which comes soon: none takes much longer than a second. Streams (live views, and
looks at keys) may last for hours, so one too many is refused.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from headrace.console.http_server import RefusedCallError

PAGES_MAX: Final = 8
"""Each may fetch and keep some 24 MiB."""
STREAMS_MAX: Final = 32


class ReadingLimits:
    """See above."""

    def __init__(self) -> None:
        self.pages = asyncio.Semaphore(PAGES_MAX)
        self._streams = 0

    def check_stream(self) -> None:
        """RefusedCallError where there is no room for another one."""
        if self._streams >= STREAMS_MAX:
            raise RefusedCallError(503, f"{STREAMS_MAX} topics are followed here already: close some pages")

    @contextmanager
    def stream(self) -> Iterator[None]:
        """One that has begun, until it ends."""
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1
