"""Reads /metrics of brokers and of running pipelines, told apart by what they tell.

Brokers' are headrace's own, or what the JMX exporter makes of Apache Kafka's MBeans: a few figures for each
address, what comes in and goes out a second, processor and memory. Pipelines' are kept in `pipeline_run.py`;
they are short, and read more often. An address that does not answer says so on the page, and in the log once.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

from headrace.console.pipeline_run import PREFIX, PipelineRun, PipelineSample

log = logging.getLogger(__name__)

PAUSE_S: Final = 10.0
PIPELINE_PAUSE_S: Final = 2.0
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
    "process_start_time_seconds": "started",
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
    run: PipelineRun = field(default_factory=PipelineRun)

    @property
    def pause_s(self) -> float:
        return PIPELINE_PAUSE_S if self.run.is_known else PAUSE_S

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
    """Scrapes addresses every few seconds, each for itself: one that hangs does not hold up the others."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._sources = [_Source(each) for each in urls]

    async def run(self) -> None:
        """Until it is cancelled."""
        await asyncio.gather(*(self._follow(each) for each in self._sources))

    async def _follow(self, source: _Source) -> None:
        while True:
            await self._read(source)
            await asyncio.sleep(source.pause_s)

    def figures(self) -> list[dict[str, Any]]:
        """Of brokers, and of addresses that have not answered yet."""
        return [
            {"url": each.url, "node": each.node, "error": each.error, **each.figures}
            for each in self._sources
            if not each.run.is_known
        ]

    def runs(self) -> list[tuple[str, str, PipelineRun]]:
        """Address, what is wrong with it, and what is known of it, for each run of pipelines."""
        return [(each.url, each.error, each.run) for each in self._sources if each.run.is_known]

    async def _read(self, source: _Source) -> None:
        try:
            async with asyncio.timeout(ANSWER_S):
                text = await _get(source.url)
            read, of_pipelines = await asyncio.to_thread(_figures, text)
        except (OSError, ValueError, EOFError, TimeoutError) as error:
            if not source.error:
                log.warning("no metrics from %s: %s", source.url, error or "it takes too long")
            source.error = str(error) or "it takes too long"
            source.figures = {}
            return
        source.error = ""
        source.take(read)
        source.run.take(of_pipelines, int(time.time() * 1000))


def _figures(text: str) -> tuple[dict[str, Any], list[PipelineSample]]:
    """The figures of a scrape by their short names, the broker's number where it tells it, and what is told
    of pipelines.
    """
    found: dict[str, Any] = {}
    of_pipelines: list[PipelineSample] = []
    names = {**COUNTERS, **GAUGES}
    for name, labels, value in _samples(text.splitlines()):
        if name == _BROKER:
            found["node"] = labels.get("id", "")
        elif name.startswith(PREFIX):
            of_pipelines.append(PipelineSample(name.removeprefix(PREFIX), labels, value))
        elif name in names and not labels.get("topic"):
            found[names[name]] = value
    return found, of_pipelines


def _samples(lines: Iterable[str]) -> Iterator[tuple[str, dict[str, str], float]]:
    """Only lines of the wanted names are read: a large cluster has a million others."""
    wanted = (*COUNTERS, *GAUGES, _BROKER, PREFIX)
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
