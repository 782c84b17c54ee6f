"""A real broker inside a test: no process to start, no port to choose, nothing left behind.

    with Cluster(settings={"num.partitions": "3"}) as cluster:
        producer = AnyKafkaClient(bootstrap_servers=cluster.bootstrap_servers)

The node runs on a thread with an event loop of its own, listens on a free port of the loopback interface,
and keeps its files in a temporary folder that is removed at the end. It is the node that serves in
production, on the machine's own clock, disk and network; the simulated ones are for `World`.
"""

import asyncio
import contextlib
import random
import tempfile
import threading
from collections.abc import Coroutine, Mapping
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from headrace.base.clock import SystemClock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.log.system_disk import SystemDisk
from headrace.node.assembly import Node, start_node
from headrace.node.config import load
from headrace.transport.client_connection import connect
from headrace.transport.receive_memory import ReceiveMemory
from headrace.transport.system_network import SystemNetwork
from headrace.wire.schemas.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

T = TypeVar("T")

# A start takes a fraction of a second; a machine under full load gets its time too.
START_S_MAX: Final = 60.0

# Every partition of the offsets topic is a folder with files: a test needs few. `settings` may say otherwise.
COMFORT: Final = {"offsets.topic.num.partitions": "5"}


class Cluster:
    """A cluster for a test. Use it as a context manager; `bootstrap_servers` is for any Kafka client."""

    def __init__(self, nodes: int = 1, settings: Mapping[str, str] | None = None) -> None:
        if nodes != 1:
            raise ValueError(f"a cluster of {nodes} nodes: only one node can be had so far")
        self._settings = dict(settings or {})
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="headrace-cluster", daemon=True)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._node: Node | None = None

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="headrace-")
        self._thread.start()
        try:
            self._node = self._call(self._start(self._folder.name))
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._node is not None:
                self._call(self._node.stop())
        finally:
            self._node = None
            self._close()

    @property
    def bootstrap_servers(self) -> str:
        """host:port, as clients want it."""
        host, port = self._address
        return f"{host}:{port}"

    def create_topic(
        self, name: str, partitions: int = 1, *, configs: Mapping[str, str] | None = None
    ) -> None:
        """Make a topic and wait until it is there; ApiError where the broker refuses."""
        self._call(self._create_topic(name, partitions, dict(configs or {})))

    @property
    def _address(self) -> tuple[str, int]:
        if self._node is None:
            raise RuntimeError("the cluster does not run: use it in a with statement")
        return self._node.addresses[0]

    async def _start(self, folder: str) -> Node:
        return await start_node(
            load(overrides=COMFORT | self._settings, port=0, data=folder),
            loop=self._loop,
            clock=SystemClock(),
            disk=SystemDisk(),
            network=SystemNetwork(),
            rng=random.SystemRandom(),
        )

    async def _create_topic(self, name: str, partitions: int, configs: dict[str, str]) -> None:
        memory = ReceiveMemory(self._loop)
        connection = await connect(
            self._loop, SystemNetwork(), *self._address, memory=memory, client_id="headrace-testing"
        )
        pairs = [CreatableTopicConfig(key, value) for key, value in configs.items()]
        topic = CreatableTopic(name, partitions, 1, configs=pairs)
        try:
            reply = await connection.ask(CreateTopicsRequest([topic], 30_000), 5, CreateTopicsResponse)
        finally:
            connection.close()
        result = reply.topics[0]
        if result.error_code:
            raise ApiError(ErrorCode(result.error_code), result.error_message or "")

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run on the node's thread, and wait here."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(START_S_MAX)

    def _close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()
        if self._folder is not None:
            with contextlib.suppress(OSError):  # an antivirus or a curious test may still look at a file
                self._folder.cleanup()
