"""Asking a node's metrics listener, over any network, and reading what it tells."""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open
from prometheus_client.parser import text_string_to_metric_families as read_plain

from headrace.telemetry.metrics.catalogue import METRICS
from headrace.transport.network import Network
from tests.transport.harness import Peer

OPEN = "application/openmetrics-text; version=1.0.0"


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: str


Samples = dict[str, dict[tuple[tuple[str, str], ...], float]]
"""Values by name, and by labels in their order."""


async def get(
    loop: asyncio.AbstractEventLoop,
    network: Network,
    address: tuple[str, int],
    path: str,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """GET a path on a connection of its own."""
    peer = Peer(loop, network.connect(*address))
    await peer.ready("writer")
    lines = [f"GET {path} HTTP/1.1", "Host: node", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    await peer.write("\r\n".join((*lines, "", "")).encode())
    await peer.is_closed()
    peer.close()
    return answer_of(bytes(peer.received))


def answer_of(received: bytes) -> Answer:
    head, _, body = received.decode().partition("\r\n\r\n")
    first, *lines = head.split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return Answer(int(first.split()[1]), headers, body)


def samples_of(text: str, *, is_open: bool = False) -> Samples:
    """What a scrape says, read by prometheus-client; every family must be of the catalogue."""
    found: Samples = {}
    for family in (read_open if is_open else read_plain)(text):
        assert family.name in METRICS or f"{family.name}_total" in METRICS, family.name
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            values = found.setdefault(sample.name, {})
            assert labels not in values, (sample.name, labels)
            values[labels] = sample.value
    return found


def labels(**values: object) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, str(value)) for name, value in values.items()))
