"""Reads brokers' /metrics: headrace's own, or what the JMX exporter makes of Apache Kafka's MBeans.

A few figures for each address: what comes in and goes out a second, processor and memory. An address that
does not answer says so on the page, and in the log once.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

log = logging.getLogger(__name__)

PAUSE_S: Final = 10.0
ANSWER_S: Final = 10.0
ANSWER_BYTES_MAX: Final = 64 << 20

_TOPICS: Final = "kafka_server_brokertopicmetrics_"
COUNTERS: Final = {
    f"{_TOPICS}bytesin_total": "bytes_in",
    f"{_TOPICS}bytesout_total": "bytes_out",
    f"{_TOPICS}messagesin_total": "records_in",
    "process_cpu_seconds_total": "cpu",
}
GAUGES: Final = {
    "process_resident_memory_bytes": "memory",
    "kafka_server_replicamanager_underreplicatedpartitions": "under_replicated",
}
_BROKER: Final = "kafka_broker_info"


@dataclass(slots=True)
class _Source:
    url: str
    node: str = ""
    error: str = ""
    at_s: float = 0.0
    counters: dict[str, float] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)

    def take(self, read: dict[str, Any]) -> None:
        """A scrape: what was counted since the last one becomes a rate."""
        now_s = time.monotonic()
        self.node = read.pop("node", "")
        counters = {name: read.pop(name) for name in COUNTERS.values() if name in read}
        pause_s = now_s - self.at_s
        rates = {
            name: max(0.0, value - self.counters[name]) / pause_s
            for name, value in counters.items()
            if name in self.counters and pause_s > 0
        }
        self.figures = {**read, **rates}
        self.counters, self.at_s = counters, now_s


class MetricsReader:
    """Scrapes addresses every few seconds."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._sources = [_Source(each) for each in urls]

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await asyncio.gather(*(self._read(each) for each in self._sources))
            await asyncio.sleep(PAUSE_S)

    def figures(self) -> list[dict[str, Any]]:
        return [
            {"url": each.url, "node": each.node, "error": each.error, **each.figures}
            for each in self._sources
        ]

    async def _read(self, source: _Source) -> None:
        try:
            async with asyncio.timeout(ANSWER_S):
                text = await _get(source.url)
            read = await asyncio.to_thread(_figures, text)
        except (OSError, ValueError, EOFError, TimeoutError) as error:
            if not source.error:
                log.warning("no metrics from %s: %s", source.url, error or "it takes too long")
            source.error = str(error) or "it takes too long"
            source.figures = {}
            return
        source.error = ""
        source.take(read)


def _figures(text: str) -> dict[str, Any]:
    """The figures of a scrape by their short names, and the broker's number where it tells it."""
    found: dict[str, Any] = {}
    names = {**COUNTERS, **GAUGES}
    for name, labels, value in _samples(text.splitlines()):
        if name == _BROKER:
            found["node"] = labels.get("id", "")
        elif name in names and not labels.get("topic"):
            found[names[name]] = value
    return found


def _samples(lines: Iterable[str]) -> Iterator[tuple[str, dict[str, str], float]]:
    """Only lines of the wanted names are read: a large cluster has a million others."""
    wanted = (*COUNTERS, *GAUGES, _BROKER)
    chosen = [line for line in lines if line.startswith(wanted)]
    for family in text_string_to_metric_families("\n".join(chosen) + "\n"):
        for sample in family.samples:
            yield sample.name, sample.labels, sample.value


async def _get(url: str) -> str:
    """The body of a GET. Redirects are not followed: a scrape has none."""
    parts = urlsplit(url)
    is_tls = parts.scheme == "https"
    host = parts.hostname or ""
    reader, writer = await asyncio.open_connection(
        host, parts.port or (443 if is_tls else 80), ssl=is_tls or None
    )
    try:
        path = (parts.path or "/metrics") + (f"?{parts.query}" if parts.query else "")
        head = (
            f"GET {path} HTTP/1.0\r\nHost: {parts.netloc}\r\nAccept: text/plain\r\nConnection: close\r\n\r\n"
        )
        writer.write(head.encode())
        status = await reader.readline()
        if status.split(b" ")[1:2] != [b"200"]:
            raise ValueError(f"it answered {status.decode('latin-1').strip() or 'nothing'}")
        while (await reader.readline()).strip():
            pass
        body = bytearray()
        while piece := await reader.read(1 << 18):
            body += piece
            if len(body) > ANSWER_BYTES_MAX:
                raise ValueError(f"its answer has more than {ANSWER_BYTES_MAX} bytes")
    finally:
        writer.close()
    return body.decode("utf-8", "replace")
