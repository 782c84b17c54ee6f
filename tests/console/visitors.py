"""A console on a thread of its own, and visitors who ask it as a browser would.

Its pictures are always taken anew, however dear they are on a busy machine, and /metrics are read often: what
a test has changed by other ways is on the next page.
"""

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator, Sequence
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from unittest import mock

from headrace.console import cluster_watch, metrics_reader
from headrace.console.cluster_connection import ClusterSpec
from headrace.console.server import Console


@contextlib.contextmanager
def running_console(specs: Sequence[ClusterSpec], **options: Any) -> Iterator[tuple[str, int]]:
    """Where a console of these clusters listens."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="console", daemon=True)
    thread.start()

    async def begin() -> tuple[Console, tuple[str, int]]:
        console = Console(specs, **options)
        return console, await console.open("127.0.0.1", 0)

    with (
        mock.patch.multiple(cluster_watch, FRESH_S=0.0, COST_SHARE=0),
        mock.patch.multiple(metrics_reader, PAUSE_S=0.2, PIPELINE_PAUSE_S=0.2),
    ):
        console, address = asyncio.run_coroutine_threadsafe(begin(), loop).result(30)
        try:
            yield address
        finally:
            asyncio.run_coroutine_threadsafe(console.close(), loop).result(30)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(30)
            loop.close()


class Visitor:
    """Keeps a cookie and a token, as the console's own page does."""

    def __init__(self, address: tuple[str, int], cluster: str = "c") -> None:
        self.address = address
        self._base = f"/api/clusters/{cluster}/"
        self.cookie = ""
        self.token = ""
        self.session = self.ask("GET", "/api/session")[1]
        self.token = self.session["token"]

    def send(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[HTTPResponse, bytes]:
        """A request, and the answer to it."""
        connection = HTTPConnection(*self.address, timeout=60)
        given = {"Cookie": self.cookie} if self.cookie else {}
        if method != "GET":
            given |= {"X-Headrace-Token": self.token, "Content-Type": "application/json"}
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body)
        connection.request(method, path, data, given | (headers or {}))
        reply = connection.getresponse()
        content = reply.read()
        if "Set-Cookie" in reply.headers:
            self.cookie = str(reply.headers["Set-Cookie"]).partition(";")[0]
        connection.close()
        return reply, content

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        reply, content = self.send(method, path, body)
        return reply.status, json.loads(content) if content else None

    def get(self, path: str) -> Any:
        """What a page gets; it must be allowed."""
        status, found = self.ask("GET", self._base + path)
        assert status == 200, found
        return found

    def events(self, path: str) -> list[Any]:
        """All that a stream tells; it must be allowed, and end."""
        reply, content = self.send("GET", self._base + path)
        assert reply.status == 200, content
        lines = [
            line.removeprefix(b"data: ") for line in content.split(b"\n\n") if line.startswith(b"data: ")
        ]
        return [json.loads(each) for each in lines]

    def change(self, method: str, path: str, body: Any = None) -> Any:
        """A change that must be allowed."""
        status, found = self.ask(method, self._base + path, body or {})
        assert status == 200, found
        return found

    def refused(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        """The status and the reason of what must not be allowed."""
        status, found = self.ask(method, self._base + path, body if method == "GET" else body or {})
        assert status >= 400, found
        return status, found["error"]
