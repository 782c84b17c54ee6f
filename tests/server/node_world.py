"""A real node in a simulated world, and clients that talk to it: no sockets, no files, no waiting.

    @simulated(auto_create_topics_enable="false")
    async def test_something(world):
        client = await world.connect()
        reply = await client.ask(HeartbeatRequest(...), 4)

The node runs on a loop of its own, as a process does; the script runs beside it. Time passes only when
everybody waits, so a long poll of five minutes costs nothing. A test fails where the node logs a traceback.
"""

import asyncio
import errno
import inspect
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self, TypeVar

from headrace.base.ids import TopicPartition
from headrace.log.unified_log import UnifiedLog
from headrace.node.assembly import Node, start_node
from headrace.replication.partition import Partition
from headrace.settings.broker_config import BrokerConfig
from headrace.testing.disk import CAPACITY_BYTES, Crash
from headrace.testing.machine import Surroundings
from headrace.testing.world import World
from headrace.tiered.remote_storage import RemoteStorageManager
from headrace.transport.client_connection import ClientConnection, connect
from headrace.transport.limits import ReceiveLimits
from headrace.transport.network import Network
from headrace.transport.receive_memory import ReceiveMemory
from headrace.wire.apis import API
from headrace.wire.schemas.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.wire.schemas.delete_topics import DeleteTopicsRequest, DeleteTopicState

T = TypeVar("T")

PORT = 9092
CONTROLLER_PORT = 9093
SETTINGS = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "listeners": f"PLAINTEXT://node:{PORT},CONTROLLER://node:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@node:9093",
    "log.dirs": "/data",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "2",
}
API_OF = {api.request: api for api in API.values()}


class Client:
    """One connection to a broker."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    def ask(self, message: Any, version: int, *, timeout_ms: int = 20_000) -> "asyncio.Future[Any]":
        """Send a request; the future gives its reply."""
        return self.connection.ask(message, version, API_OF[type(message)].response, timeout_ms=timeout_ms)

    def tell(self, message: Any, version: int) -> None:
        """Send a request that gets no reply."""
        self.connection.tell(message, version)

    @property
    def is_open(self) -> bool:
        return self.connection.is_open

    def close(self) -> None:
        self.connection.close()


async def open_client(
    loop: asyncio.AbstractEventLoop, network: Network, host: str, port: int, client_id: str = "c"
) -> Client:
    memory = ReceiveMemory(loop, ReceiveLimits())
    return Client(await connect(loop, network, host, port, memory=memory, client_id=client_id))


class Tracebacks(logging.Handler):
    """Notes every error that was logged with a traceback: a fault of ours that a client met."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.seen.append(logging.Formatter().format(record))

    @contextmanager
    def listening(self) -> Iterator[None]:
        logging.getLogger("headrace").addHandler(self)
        try:
            yield
        finally:
            logging.getLogger("headrace").removeHandler(self)


def simulated(**settings: str) -> Callable[[Callable[..., Coroutine[Any, Any, None]]], Callable[..., None]]:
    """Run an async test on a node in a world of its own, started before and stopped in order after it.

    Names of settings with _ for dots. The test's first parameter is the world.
    """
    dotted = {name.replace("_", "."): value for name, value in settings.items()}

    def decorate(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
        def run(**parameters: Any) -> None:
            async def script(world: NodeWorld) -> None:
                await world.start()
                await test(world, **parameters)
                if world.is_running:
                    await world.stop()

            with NodeWorld(dotted) as world:
                world.run(script(world))

        signature = inspect.signature(test)
        others = list(signature.parameters.values())[1:]
        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        run.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return run

    return decorate


class NodeWorld:
    """One node on one machine, which can be stopped, killed and started again."""

    def __init__(
        self, settings: Mapping[str, str] | None = None, *, seed: int = 1, disk_bytes: int = CAPACITY_BYTES
    ) -> None:
        self.settings = SETTINGS | dict(settings or {})
        self.world = World(seed)
        self.machine = self.world.machine("node", disk_bytes=disk_bytes)
        self.failures: list[Exception] = []
        self.progress: list[str] = []
        self.tracebacks = Tracebacks()
        self._networks = {"client": self.world.network.attach("client", self.world.driver)}
        self._node: Node | None = None
        self.make_remote_store: Callable[[Surroundings], RemoteStorageManager | None] = lambda own: None

    def __enter__(self) -> Self:
        logging.getLogger("headrace").addHandler(self.tracebacks)
        return self

    def __exit__(self, *_: object) -> None:
        self.world.close()
        logging.getLogger("headrace").removeHandler(self.tracebacks)

    def run(self, script: Coroutine[Any, Any, T]) -> T:
        result = self.world.run(script)
        assert self.tracebacks.seen == []
        return result

    # --- the node ---

    @property
    def node(self) -> Node:
        assert self._node is not None, "the node does not run"
        return self._node

    @property
    def is_running(self) -> bool:
        return self._node is not None

    async def start(self, **settings: str) -> None:
        """Boot the machine and wait until the node is ready; names of settings with _ for dots."""
        await self.begin_start(**settings)

    def begin_start(self, **settings: str) -> "asyncio.Task[None]":
        self.settings |= {name.replace("_", "."): value for name, value in settings.items()}
        self.progress.clear()
        task = self.machine.boot(lambda own: self._boot(own, self.settings), may_fail=True)

        async def started() -> None:
            try:
                self._node = await self.world.result(self.machine, task)
            except BaseException:
                self.machine.retire()
                raise

        return self.world.driver.create_task(started())

    async def start_another(self, **settings: str) -> Node:
        """A second node in the same process and on the same disk."""
        assert self.machine.process is not None
        dotted = {name.replace("_", "."): value for name, value in settings.items()}
        return await self.on_node(self._boot(self.machine.process, self.settings | dotted))

    async def _boot(self, own: Surroundings, settings: Mapping[str, str]) -> Node:
        return await start_node(
            BrokerConfig(settings),
            loop=own.loop,
            clock=own.clock,
            disk=own.disk,
            network=own.network,
            rng=own.rng,
            on_progress=self.progress.append,
            on_failure=self.failures.append,
            remote_store=self.make_remote_store(own),
        )

    async def stop(self) -> None:
        """A clean stop."""
        await self.on_node(self.node.stop())
        self.machine.retire()
        self._node = None

    def kill(self, how: Crash = Crash.KILL) -> None:
        """End the process where it stands."""
        self.machine.crash(how)
        self._node = None

    async def on_node(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something on the node's own loop."""
        assert self.machine.process is not None
        return await self.world.result(self.machine, self.machine.process.loop.create_task(work))

    def note_voters(self, *node_ids: int) -> None:
        """From now on these vote beside the node, though none of them can be reached."""
        self.node.quorum.client.core.voters |= dict.fromkeys(node_ids, bytes(16))

    # --- topics and partitions ---

    async def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> bytes:
        """Make a topic; returns its id once the node leads its partitions."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[CreatableTopicConfig(key, value) for key, value in (configs or {}).items()],
        )

        async def create() -> Any:
            return await self.node.parts.controller.ask(
                CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
            )

        response = await self.on_node(create())
        assert response.topics[0].error_code == 0, response
        await self.on_node(self.node.metadata_publisher.settle())
        return bytes(response.topics[0].topic_id)

    async def delete_topic(self, name: str) -> None:
        async def delete() -> Any:
            return await self.node.parts.controller.ask(
                DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=30_000)
            )

        response = await self.on_node(delete())
        assert response.responses[0].error_code == 0, response

    def partition(self, topic: str, index: int = 0) -> Partition:
        found = self.node.parts.replica_manager.get(TopicPartition(topic, index))
        assert found is not None
        return found

    def log(self, topic: str, index: int = 0) -> UnifiedLog:
        log = self.partition(topic, index).log
        assert log is not None
        return log

    def handle_log_dir_failure(self, path: str) -> None:
        """From now on the disk under this log directory fails; and the node has noticed."""
        faults = self.machine.disk.faults
        faults.concerns = lambda touched: touched.startswith(path)
        faults.write_error_rate = faults.read_error_rate = faults.sync_error_rate = faults.name_error_rate = (
            1.0
        )
        store = self.node.parts.log_manager
        folder = next(each for each in store.log_dirs if each.path == path)
        store.handle_log_dir_failure(folder, OSError(errno.EIO, "the disk is broken", path))

    # --- clients and time ---

    async def connect(self, client_id: str = "c", port: int = PORT, *, machine: str = "client") -> Client:
        return await open_client(self.world.driver, self.network_of(machine), "node", port, client_id)

    def network_of(self, machine: str) -> Network:
        if machine not in self._networks:
            self._networks[machine] = self.world.network.attach(machine, self.world.driver)
        return self._networks[machine]

    def address_of(self, machine: str) -> str:
        """From where the connections of a machine come."""
        return self.network_of(machine).machine.address

    async def connect_controller(self) -> Client:
        """A connection to the listener that brokers and other controllers use."""
        return await self.connect("7", CONTROLLER_PORT)

    async def until(self, condition: Callable[[], bool], what: str = "", timeout_s: float = 60) -> None:
        await self.world.until(condition, timeout_s=timeout_s, what=what or repr(condition))

    async def pass_time(self, milliseconds: int) -> None:
        """Let virtual time pass."""
        await asyncio.sleep(milliseconds / 1000)

    def now_ms(self) -> float:
        return self.world.driver.time() * 1000
