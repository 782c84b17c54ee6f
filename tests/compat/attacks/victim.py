"""The polite client: a process that asks small things, one at a time, and notes how long each answer took;
and a process that only answers, to measure the machine with.
"""

import contextlib
import multiprocessing
import socket
import statistics
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Final

from headrace.wire.schemas.api_versions import ApiVersionsRequest
from headrace.wire.schemas.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.compat import raw_wire
from tests.compat.attacks.wire import connect, frame, receive

TOPIC: Final = "victim"
PAUSE_SECONDS: Final = 0.02


@dataclass(frozen=True)
class Waits:
    """How long the answers took, and how often there was none."""

    milliseconds: list[float]
    failures: int

    @property
    def median(self) -> float:
        return statistics.median(self.milliseconds) if self.milliseconds else float("nan")

    @property
    def largest(self) -> float:
        return max(self.milliseconds, default=float("nan"))


class Victim:
    """Runs between `start` and `stop`; with `produce_bytes` its records are of that size."""

    def __init__(self, bootstrap: str, produce_bytes: int = 100) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_run, args=(bootstrap, produce_bytes, other), daemon=True)
        self._process.start()
        self._pipe.recv()  # connected, and answered once

    def start(self) -> None:
        self._pipe.send("start")

    def stop(self) -> Waits:
        """What was measured since `start`; a question that is under way is waited for."""
        self._pipe.send("stop")
        waits: Waits = self._pipe.recv()
        return waits

    def end(self) -> None:
        self._pipe.send("end")
        self._process.join(10)


class Answerer:
    """A process that answers each frame of one connection after the other with an empty one."""

    def __enter__(self) -> "Answerer":
        context = multiprocessing.get_context("spawn")
        pipe, other = context.Pipe()
        self._process = context.Process(target=_answer, args=(other,), daemon=True)
        self._process.start()
        self.bootstrap: str = pipe.recv()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()


def _answer(pipe: Connection) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        pipe.send("{}:{}".format(*listening.getsockname()))
        while True:
            own, _ = listening.accept()
            own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with own, contextlib.suppress(OSError):
                while True:
                    receive(own)
                    own.sendall(bytes(4))


def _requests(produce_bytes: int) -> list[bytes]:
    # A record: its length, attributes, time delta, offset delta, no key, value, no headers.
    value = bytes(produce_bytes)
    body = b"\0\0\0\x01" + _zigzag(len(value)) + value + b"\0"
    records = raw_wire.batch(_zigzag(len(body)) + body)
    data = [TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(0, records)])]
    return [
        frame(ApiVersionsRequest(), 0),
        frame(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 1),
        frame(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=data), 7),
    ]


def _zigzag(value: int) -> bytes:
    value = value << 1
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))


def _run(bootstrap: str, produce_bytes: int, pipe: Connection) -> None:
    requests = _requests(produce_bytes)
    own = connect(bootstrap)
    for request in requests:
        own.sendall(request)
        receive(own)
    pipe.send("ready")
    while pipe.recv() == "start":
        waits: list[float] = []
        failures = at = 0
        while not pipe.poll(PAUSE_SECONDS):
            began = time.perf_counter()
            try:
                own.sendall(requests[at])
                receive(own)
            except OSError:
                failures += 1
                own = connect(bootstrap)
            waits.append((time.perf_counter() - began) * 1000)
            at = (at + 1) % len(requests)
        pipe.recv()
        pipe.send(Waits(waits, failures))
