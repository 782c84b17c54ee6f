"""Figures of the process and its machine. Only a real one has them: a node in a simulator is given none."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from prometheus_client import ProcessCollector

from headrace.telemetry.metrics.exposition import Families

_IO: Final = Path("/proc/self/io")


class LoopTime(NamedTuple):
    """When somebody looked, and how long the loop had run and served until then."""

    at_ns: int
    running_ns: int
    serving_ns: int


class ProcessFigures:
    """This process. `gather` is called on the loop's thread, whose time is measured."""

    def __init__(self) -> None:
        self._collector = ProcessCollector(registry=None)
        self._before = LoopTime(time.monotonic_ns(), time.thread_time_ns(), 0)

    def gather(self, families: Families, serving_ns: int) -> Iterator[None]:
        """`serving_ns` is how long the loop has served requests so far."""
        yield
        for family in self._collector.collect():
            for sample in family.samples:
                families.add(sample.name, sample.value)
        for name, value in _disk_bytes().items():
            families.add(f"kafka_server_kafkaserver_linux_disk_{name}", value)
        now, before = LoopTime(time.monotonic_ns(), time.thread_time_ns(), serving_ns), self._before
        self._before = now
        passed_ns = max(now.at_ns - before.at_ns, 1)
        running = min((now.running_ns - before.running_ns) / passed_ns, 1.0)
        serving = min((now.serving_ns - before.serving_ns) / passed_ns, 1.0)
        families.add("kafka_network_socketserver_networkprocessoravgidle_percent", 1 - running)
        families.add("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", 1 - serving)


def _disk_bytes() -> dict[str, int]:
    """What Kafka takes from the same file; nothing on systems without it."""
    try:
        lines = _IO.read_text().splitlines()
    except OSError:
        return {}
    found = dict(line.split(": ") for line in lines)
    return {name: int(found[name]) for name in ("read_bytes", "write_bytes")}
