"""Clusters of three nodes to play scripts on: processes of Apache Kafka or of headrace, or simulated ones.

A script says by its client's name which node it talks to: "c@2" is the client c at node 2. Node 1 is the only
controller, so that all know who it is.
"""

import asyncio
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from headrace.testing.node_cluster import PORT, NodeCluster
from headrace.testing.world import World
from headrace.transport.system_network import SystemNetwork, free_ports
from headrace.wire.schemas.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.compat import brokers
from tests.compat.alike import play
from tests.compat.alike.session import Answer
from tests.compat.either import EitherNode, System
from tests.server.beside_kafka.record import RunningKafka
from tests.server.node_world import Client, Tracebacks, open_client

HOST: Final = "127.0.0.1"
CONTROLLER: Final = 1
NODES: Final = (1, 2, 3)

# One batch in each fetch of a follower; nobody leaves the in-sync set or gets back to lead by time.
SETTINGS: Final = (
    brokers.SETTINGS
    | play.SETTINGS
    | {
        "auto.leader.rebalance.enable": "false",
        "replica.fetch.max.bytes": "1000",
        "replica.fetch.response.max.bytes": "1000",
        "replica.lag.time.max.ms": "60000",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }
)


def _node_of(client_id: str) -> int:
    return int(client_id.rpartition("@")[2])


class RunningNodes(RunningKafka):
    """Implements `talk.Broker` on a cluster of processes."""

    def __init__(self, addresses: Mapping[int, str]) -> None:
        host, _, port = addresses[CONTROLLER].rpartition(":")
        super().__init__(host, int(port))
        self._addresses = addresses

    async def connect(self, client_id: str) -> Client:
        node = _node_of(client_id) if "@" in client_id else CONTROLLER
        host, _, port = self._addresses[node].rpartition(":")
        return await open_client(asyncio.get_running_loop(), SystemNetwork(), host, int(port), client_id)


class SimulatedNodes:
    """Implements `talk.Broker` on a cluster in virtual time."""

    prefix = ""

    def __init__(self, cluster: NodeCluster) -> None:
        self._cluster = cluster
        self._network = cluster.world.network.attach("client", cluster.world.driver)

    async def connect(self, client_id: str) -> Client:
        host = f"node{_node_of(client_id)}"
        return await open_client(self._cluster.world.driver, self._network, host, PORT, client_id)

    async def create_topic(self, name: str, partitions: int, configs: Mapping[str, str]) -> bytes:
        raise NotImplementedError("scripts for three nodes say where a topic's replicas are")

    async def delete_topic(self, name: str) -> None:
        async def delete() -> Any:
            return await self._cluster.nodes[CONTROLLER].parts.controller.ask(
                DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=30_000)
            )

        response = await self._cluster.on_node(CONTROLLER, delete())
        assert response.responses[0].error_code == 0, response

    async def pass_time(self, milliseconds: int) -> None:
        await asyncio.sleep(milliseconds / 1000)


def on_running(addresses: Mapping[int, str], area: str) -> list[Answer]:
    return asyncio.run(play.converse(RunningNodes(addresses), area, None))


def on_simulated(area: str) -> list[Answer]:
    world = World(1)
    roles = {node: "broker,controller" if node == CONTROLLER else "broker" for node in NODES}
    cluster = NodeCluster(world, nodes=len(NODES), roles=roles, settings=SETTINGS | {"broker.rack": ""})
    tracebacks = Tracebacks()

    async def conversation() -> list[Answer]:
        await cluster.start()
        return await play.converse(SimulatedNodes(cluster), area, None)

    try:
        with tracebacks.listening():
            answers = world.run(conversation())
    finally:
        world.close()
    assert tracebacks.seen == []
    return answers


@contextmanager
def running(system: System, folder: Path) -> Iterator[Mapping[int, str]]:
    """Where each node of a cluster of processes is."""
    folder.mkdir(parents=True)
    ports = free_ports(len(NODES) + 1)
    nodes = {}
    for node in NODES:
        clients = f"PLAINTEXT://{HOST}:{ports[node]}"
        is_controller = node == CONTROLLER
        own = {
            "process.roles": "broker,controller" if is_controller else "broker",
            "node.id": str(node),
            "listeners": clients + (f",CONTROLLER://{HOST}:{ports[0]}" if is_controller else ""),
            "advertised.listeners": clients,
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"{CONTROLLER}@{HOST}:{ports[0]}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(folder / f"node{node}"),
        }
        nodes[node] = EitherNode(folder / f"node{node}", own | SETTINGS, f"{HOST}:{ports[node]}")
    with ExitStack() as stack:
        for node in nodes.values():
            stack.enter_context(node)
            node.format(system)
        with ThreadPoolExecutor() as pool:
            list(pool.map(EitherNode.start, nodes.values()))
        yield {number: node.bootstrap for number, node in nodes.items()}
        for node in reversed(nodes.values()):
            node.stop()
