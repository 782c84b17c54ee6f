"""Real brokers inside a test: no process to start, no port to choose, nothing left behind.

    with Cluster(settings={"num.partitions": "3"}) as cluster:
        producer = AnyKafkaClient(bootstrap_servers=cluster.bootstrap_servers)

The nodes run on a thread with an event loop of its own, listen on free ports of the loopback interface, and
keep their files in a temporary folder that is removed at the end; what a killed test has left is removed by
the next. They are the nodes that serve in production, on the machine's own clock, disk and network; the
simulated ones are for `World`. Several of them are a cluster: each is a broker and a voter, and `stop_node`
and `start_node` take one away and bring it back.

    with Cluster(secure=True) as cluster:
        producer = confluent_kafka.Producer(cluster.librdkafka_settings("app"))

A secure one is that of `headrace start --secure`: TLS, logins and access rules, with the users `admin`, who
may do everything, and `app`, who may use all topics, groups and transactions.
"""

import asyncio
import random
import threading
from collections.abc import Coroutine, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from headrace.base.clock import SystemClock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.clients.config import ADMIN, ClientConfig
from headrace.clients.internals.channel_builder import channel_builder_of
from headrace.log.system_disk import SystemDisk
from headrace.node.assembly import Node, start_node
from headrace.node.config import load
from headrace.node.fleet import fleet_configs, format_fleet
from headrace.node.temporary_folder import TemporaryFolder
from headrace.settings.broker_config import BrokerConfig
from headrace.tiered.stores.opening import open_store
from headrace.transport.client_connection import connect
from headrace.transport.receive_memory import ReceiveMemory
from headrace.transport.system_network import SystemNetwork
from headrace.wire.schemas.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from headrace.node.secure_fleet import SecureFleet

T = TypeVar("T")

# A start takes a fraction of a second; a machine under full load gets its time too.
START_S_MAX: Final = 60.0

# Every partition of a topic of the system is a folder with files: a test needs few. `settings` may say more.
COMFORT: Final = {
    "offsets.topic.num.partitions": "5",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "5",
}


class Cluster:
    """A cluster for a test. Use it as a context manager; `bootstrap_servers` is for any Kafka client."""

    def __init__(
        self, nodes: int = 1, settings: Mapping[str, str] | None = None, *, secure: bool = False
    ) -> None:
        if nodes < 1:
            raise ValueError(f"a cluster of {nodes} nodes: it takes at least one")
        self._count = nodes
        self._is_secure = secure
        self._secured: SecureFleet | None = None
        self._settings = dict(settings or {})
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="headrace-cluster", daemon=True)
        self._folder: TemporaryFolder | None = None
        self._nodes: dict[int, Node] = {}
        self._configs: dict[int, BrokerConfig] = {}

    def __enter__(self) -> Self:
        self._folder = TemporaryFolder("cluster")
        self._thread.start()
        try:
            self._configure(str(self._folder.path / "data"))
            self._call(self._start_all())
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._call(self._stop_all())
        finally:
            self._close()

    @property
    def bootstrap_servers(self) -> str:
        """host:port of every node that runs, as clients want it."""
        if not self._nodes:
            raise RuntimeError("the cluster does not run: use it in a with statement")
        addresses = (node.addresses[0] for _, node in sorted(self._nodes.items()))
        return ",".join(f"{host}:{port}" for host, port in addresses)

    def client_settings(self, user: str = "app") -> dict[str, str]:
        """What headrace's clients need to connect; of a secure cluster, to log in as this user."""
        if self._secured is None:
            return {"bootstrap.servers": self.bootstrap_servers}
        return self._secured.client_settings(user) | {"bootstrap.servers": self.bootstrap_servers}

    def librdkafka_settings(self, user: str = "app") -> dict[str, str]:
        """The same in the words of librdkafka: confluent-kafka and others."""
        if self._secured is None:
            return {"bootstrap.servers": self.bootstrap_servers}
        return self._secured.librdkafka_settings(user) | {"bootstrap.servers": self.bootstrap_servers}

    @property
    def node_ids(self) -> list[int]:
        """The nodes that run."""
        return sorted(self._nodes)

    def stop_node(self, node_id: int) -> None:
        """Stop a node in order; the others go on."""
        self._call(self._nodes.pop(node_id).stop())

    def start_node(self, node_id: int) -> None:
        """Bring a stopped node back, and wait until it is ready."""
        self._call(self._start(node_id))

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replication_factor: int = 1,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Make a topic and wait until it is there; ApiError where the broker refuses."""
        self._call(self._create_topic(name, partitions, replication_factor, dict(configs or {})))

    def _configure(self, folder: str) -> None:
        settings = COMFORT | self._settings
        if self._is_secure:
            configs = self._secure(folder, settings)
        elif self._count == 1:
            configs = [load(overrides=settings, port=0, data=folder)]
        else:
            configs = fleet_configs(self._count, 0, folder, settings)
            format_fleet(configs, random.SystemRandom())
        self._configs = {config.node_id: config for config in configs}

    def _secure(self, folder: str, settings: dict[str, str]) -> list[BrokerConfig]:
        from headrace.node.secure_fleet import SecureFleet

        rng = random.SystemRandom()
        self._secured = secured = SecureFleet(folder, self._count)
        configs = secured.configs(0, folder, settings)
        secured.prepare(lambda text: None)
        secured.write_client_files(configs)
        format_fleet(configs, rng, secured.bootstrap(rng))
        return configs

    async def _start_all(self) -> None:
        await asyncio.gather(*(self._start(node_id) for node_id in self._configs))

    async def _stop_all(self) -> None:
        nodes, self._nodes = list(self._nodes.values()), {}
        await asyncio.gather(*(node.stop() for node in nodes))

    async def _start(self, node_id: int) -> None:
        config, disk = self._configs[node_id], SystemDisk()
        self._nodes[node_id] = await start_node(
            config,
            loop=self._loop,
            clock=SystemClock(),
            disk=disk,
            network=SystemNetwork(),
            rng=random.SystemRandom(),
            remote_store=open_store(config, disk),
        )

    async def _create_topic(self, name: str, partitions: int, replicas: int, configs: dict[str, str]) -> None:
        address = self._nodes[min(self._nodes)].addresses[0]
        connection = await connect(
            self._loop,
            SystemNetwork(),
            *address,
            memory=ReceiveMemory(self._loop),
            client_id="headrace-testing",
            channel_builder=channel_builder_of(ClientConfig(ADMIN, self.client_settings("admin"))),
        )
        pairs = [CreatableTopicConfig(key, value) for key, value in configs.items()]
        topic = CreatableTopic(name, partitions, replicas, configs=pairs)
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
            self._folder.remove()
