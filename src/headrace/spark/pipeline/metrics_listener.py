"""/metrics of running pipelines, as a node has it: the same HTTP, the same text, in a thread of its own.

/health/live is there too: as long as the process runs, so do its queries, since it ends with them.
"""

import asyncio
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from headrace.spark.pipeline.watch import PipelineWatch
from headrace.telemetry.metrics.exposition import content_type
from headrace.transport.http_listener import HttpListener, HttpReply, HttpRequest
from headrace.transport.system_network import SystemNetwork

T = TypeVar("T")


class PipelineMetrics:
    """Open while it is entered; OSError where the port is taken."""

    def __init__(self, watch: PipelineWatch, host: str, port: int) -> None:
        self._watch = watch
        self._wanted = host, port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="metrics", daemon=True)
        self._listener = HttpListener(self._loop, SystemNetwork(), self._respond)
        self.address: tuple[str, int] = self._wanted

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self.address = self._call(lambda: self._listener.listen(*self._wanted))
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call(self._listener.close)
        self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, act: Callable[[], T]) -> T:
        """What it returns, from the loop's thread."""

        async def call() -> T:
            return act()

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result()

    def _respond(self, request: HttpRequest) -> HttpReply:
        if request.path == "/metrics":
            accept = request.headers.get("accept", "")
            return HttpReply(200, list(self._watch.families().text(accept)), content_type(accept))
        if request.path == "/health/live":
            return HttpReply.text(200, "the queries run")
        return HttpReply.text(404, "there are /metrics and /health/live")
