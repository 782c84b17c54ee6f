"""Hands on what clients push to an endpoint that speaks OTLP/HTTP, as collectors of OpenTelemetry do.

Each push is one POST, with who pushed it among the attributes of its resource. A thread sends, one at a time;
what waits has a bound, and what does not fit or is refused is lost, counted and told: a client's next push
comes soon, and its totals go on from there.
"""

import asyncio
import logging
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from headrace.settings.broker_config import BrokerConfig
from headrace.settings.definition import SettingError
from headrace.telemetry.client_metrics.otlp import with_resource
from headrace.telemetry.limited_log import LimitedLog
from headrace.telemetry.outage import Outage

logger = logging.getLogger(__name__)

ENDPOINT: Final = "headrace.client.metrics.otlp.endpoint"
HEADERS: Final = "headrace.client.metrics.otlp.headers"
WAITING_BYTES_MAX: Final = 8 << 20
TIMEOUT_S: Final = 5.0

Post = Callable[[str, bytes, Mapping[str, str]], None]


def otlp_exporter_of(
    config: BrokerConfig, cluster_id: str, loop: asyncio.AbstractEventLoop
) -> "OtlpExporter":
    """The exporter of a node's settings; SettingError where they make no sense."""
    url = config.str(ENDPOINT)
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingError(ENDPOINT, f"{url!r} is no address as http://collector:4318/v1/metrics")
    given = config.get(HEADERS)
    headers = {"Content-Type": "application/x-protobuf"}
    for pair in filter(None, (str(given) if given is not None else "").split(",")):
        name, separator, value = pair.partition("=")
        if not separator or not name.strip() or "\n" in pair or "\r" in pair:
            raise SettingError(HEADERS, "it is not NAME=VALUE with a comma between two")
        headers[name.strip()] = value.strip()
    resource = {"kafka.cluster.id": cluster_id, "kafka.broker.id": str(config.node_id)}
    return OtlpExporter(url, headers, resource, loop=loop)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Headers may hold a key, which is for the address that was set and for no other."""

    def redirect_request(self, *_: Any) -> None:
        return None


def post(url: str, data: bytes, headers: Mapping[str, str]) -> None:
    """Send one push; OSError where it does not arrive."""
    request = urllib.request.Request(url, data=data, headers=dict(headers), method="POST")
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=TIMEOUT_S):
            pass
    except urllib.error.HTTPError as error:
        raise OSError(f"the answer is HTTP {error.code}") from None


class OtlpExporter:
    """One endpoint. `counts` has pushes by what became of them."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        resource: Mapping[str, str],
        *,
        loop: asyncio.AbstractEventLoop,
        send: Post = post,
    ) -> None:
        self._url = url
        self._headers = headers
        self._resource = resource
        self._loop = loop
        self._send = send
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._sending: asyncio.Task[None] | None = None
        self._outage = Outage(loop.time, logger, f"the endpoint of client metrics {url}")
        self._full = LimitedLog(loop.time, logger, logging.WARNING)
        self.counts: Counter[str] = Counter({"sent": 0, "lost": 0})

    def hand_on(self, data: bytes, attributes: Mapping[str, str]) -> None:
        """Send a push when it is its turn."""
        if self._waiting_bytes + len(data) > WAITING_BYTES_MAX:
            self.counts["lost"] += 1
            self._full.write("a push of client metrics is lost: %s takes them too slowly", self._url)
            return
        pushed = with_resource(data, {**attributes, **self._resource})
        self._waiting.append(pushed)
        self._waiting_bytes += len(pushed)
        if self._sending is None:
            self._sending = self._loop.create_task(self._send_all())

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                data = self._waiting.popleft()
                self._waiting_bytes -= len(data)
                try:
                    await self._loop.run_in_executor(None, self._send, self._url, data, self._headers)
                except OSError as error:
                    self.counts["lost"] += 1
                    self._outage.failed(error)
                else:
                    self.counts["sent"] += 1
                    self._outage.over()
        finally:
            self._sending = None

    def close(self) -> None:
        """Let go of what waits."""
        self._waiting.clear()
        if self._sending is not None:
            self._sending.cancel()
