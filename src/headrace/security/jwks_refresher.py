"""An issuer's keys, read at the start and again and again: from a file or an https address.

At the start they must be there: without keys no token can be checked, and nobody is let in unchecked. Later
on what was read last holds while reading fails, which is told each time. A token that names an unknown key
has them read sooner, for issuers change their keys; not more often than every ten seconds, whatever is sent.
"""

import asyncio
import logging
import urllib.parse
from collections.abc import Callable
from typing import Final

from headrace.security.sasl.jwt_validator import JsonWebKeys
from headrace.security.system_http import check_url

log = logging.getLogger(__name__)

SOONER_S: Final = 10.0
"""Between two readings because of a key that is not known."""


class JwksRefresher:
    """`read_file` reads a file, `fetch` what is at an https address; that blocks, and has a thread."""

    def __init__(
        self,
        url: str,
        *,
        refresh_ms: int,
        loop: asyncio.AbstractEventLoop,
        read_file: Callable[[str], bytes],
        fetch: Callable[[str], bytes],
    ) -> None:
        self.keys = JsonWebKeys(self._sooner)
        self._url = url
        self._refresh_s = refresh_ms / 1000
        self._loop = loop
        self._read_file = read_file
        self._fetch = fetch
        self._read_at = loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Read the keys; OSError or ValueError where there are none."""
        path = file_of(self._url)
        if path is None:
            check_url(self._url)
        count = self.keys.load(self._fetch(self._url) if path is None else self._read_file(path))
        log.info("%d keys for tokens are read from %s", count, self._url)
        self._plan(self._refresh_s)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _plan(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self._begin)

    def _sooner(self) -> None:
        """A token has a key that is not known."""
        wait_s = self._read_at + SOONER_S - self._loop.time()
        if self._task is None and (self._timer is None or self._timer.when() - self._loop.time() > wait_s):
            self._plan(max(wait_s, 0.0))

    def _begin(self) -> None:
        self._timer = None
        self._read_at = self._loop.time()
        if self._task is None:
            self._task = self._loop.create_task(self._refresh())

    async def _refresh(self) -> None:
        path = file_of(self._url)
        try:
            if path is None:
                data = await self._loop.run_in_executor(None, self._fetch, self._url)
            else:
                data = self._read_file(path)
            self.keys.load(data)
        except (OSError, ValueError) as error:
            log.warning("the keys of %s could not be read again, the former ones hold: %s", self._url, error)
        finally:
            self._task = None
            self._plan(self._refresh_s)


def file_of(url: str) -> str | None:
    """The path of a file address; None for any other."""
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.unquote(parts.path) if parts.scheme == "file" else None
