"""Three nodes: the controller counts what a broker forwards for a client, and the broker makes that wait."""

from typing import Any

from headrace.base.error_codes import ErrorCode
from headrace.controller.drivers.active_controller import client_id_of, with_client_id
from headrace.testing.machine import Surroundings
from headrace.testing.node_cluster import PORT, NodeCluster
from headrace.testing.world import World
from headrace.wire.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.schemas.metadata import MetadataRequest
from tests.server.beside_kafka.client_quotas import CHANGES, CLIENT, alter
from tests.server.node_world import open_client


def create(name: str) -> CreateTopicsRequest:
    return CreateTopicsRequest([CreatableTopic(name, 15, 1)], 30_000)


def test_the_controller_knows_for_which_client_a_broker_asks() -> None:
    assert client_id_of(with_client_id("headrace-broker-x", "app of client b")) == "app of client b"
    assert client_id_of(with_client_id("headrace-broker-x", None)) is None
    assert client_id_of("a client of Apache Kafka's broker") == "a client of Apache Kafka's broker"
    assert client_id_of(None) is None


def test_changes_are_counted_by_the_controller() -> None:
    async def script(cluster: NodeCluster) -> None:
        await cluster.start()
        broker = next(each for each in cluster.ids if each != cluster.controller_id())
        machine = cluster.world.machine("client")

        async def ask(own: Surroundings) -> tuple[Any, ...]:
            async def connect(client_id: str) -> Any:
                return await open_client(own.loop, own.network, f"node{broker}", PORT, client_id)

            admin, maker = await connect("admin"), await connect("maker")
            assert (await admin.ask(alter(({CLIENT: "maker"}, {CHANGES: 1.0})), 1)).entries[0].error_code == 0
            first = await maker.ask(create("a"), 7)
            second = await maker.ask(create("b"), 7)
            free = await admin.ask(create("c"), 7)
            began = own.loop.time()
            await admin.ask(MetadataRequest(topics=[]), 9)
            unheld = own.loop.time() - began
            await maker.ask(MetadataRequest(topics=[]), 9)
            return first, second, free, unheld, own.loop.time() - began

        first, second, free, unheld_s, held_s = await cluster.world.result(machine, machine.boot(ask))
        assert first.topics[0].error_code == 0
        assert second.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert 1000 < second.throttle_time_ms <= 4000
        assert free.topics[0].error_code == 0
        assert unheld_s < 1
        assert held_s > second.throttle_time_ms / 1000 - 1

    cluster = NodeCluster(World(1))
    try:
        cluster.world.run(script(cluster))
    finally:
        cluster.world.close()
