"""Answers that wait for the next leader, in virtual time; and what clients of a cluster hear after a kill."""

import asyncio
from collections.abc import Awaitable, Callable

from headrace.server.suspected_brokers import DOUBT_S, LINGER_S, SuspectedBrokers
from headrace.testing.machine import Surroundings
from headrace.testing.node_cluster import NodeCluster
from headrace.testing.world import World
from headrace.transport.client_connection import ClientConnection, connect
from headrace.transport.receive_memory import ReceiveMemory
from headrace.wire.schemas.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.wire.schemas.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

PORT = 9092


def in_a_world(script: Callable[[Surroundings, SuspectedBrokers], Awaitable[None]]) -> None:
    world = World("suspected_brokers")
    machine = world.machine("node")

    async def program(around: Surroundings) -> None:
        await script(around, SuspectedBrokers(around.loop))

    async def run() -> None:
        await world.result(machine, machine.boot(program))

    world.run(run())
    world.close()


def test_who_is_not_in_doubt_is_named_at_once() -> None:
    async def script(around: Surroundings, suspected_brokers: SuspectedBrokers) -> None:
        suspected_brokers.suspect(3)
        assert suspected_brokers.settled(lambda: [1, 2], list) == [1, 2]
        suspected_brokers.trust(3)
        assert suspected_brokers.settled(lambda: [3], list) == [3]

    in_a_world(script)


def test_an_answer_waits_for_the_image_for_trust_or_for_a_second() -> None:
    async def script(around: Surroundings, suspected_brokers: SuspectedBrokers) -> None:
        leader = [1]
        suspected_brokers.suspect(1)
        first, second = (suspected_brokers.settled(lambda: list(leader), list) for _ in range(2))
        assert isinstance(first, asyncio.Future)
        assert isinstance(second, asyncio.Future)
        second.cancel()  # its client hung up
        suspected_brokers.look_again()
        assert not first.done()
        leader[0] = 2
        suspected_brokers.look_again()
        assert first.result() == [2]
        leader[0] = 1
        third = suspected_brokers.settled(lambda: list(leader), list)
        assert isinstance(third, asyncio.Future)
        suspected_brokers.trust(1)
        assert third.result() == [1]
        began = around.loop.time()
        suspected_brokers.suspect(1)
        fourth = suspected_brokers.settled(lambda: list(leader), list)
        assert isinstance(fourth, asyncio.Future)
        assert await fourth == [1]
        assert around.loop.time() - began <= DOUBT_S + 0.01

    in_a_world(script)


def test_who_can_be_asked_is_asked_first() -> None:
    async def script(around: Surroundings, _: SuspectedBrokers) -> None:
        signs: dict[int, asyncio.Future[None]] = {}

        def ask(broker_id: int) -> asyncio.Future[None]:
            signs[broker_id] = around.loop.create_future()
            return signs[broker_id]

        suspected_brokers = SuspectedBrokers(around.loop, ask)
        made: list[int] = []

        def answer() -> list[int]:
            made.append(len(made))
            return [2, 3] if 1 in gone else [1, 2]

        gone: set[int] = set()
        first = suspected_brokers.settled(answer, list)
        assert isinstance(first, asyncio.Future)
        signs[1].set_result(None)
        await asyncio.sleep(0)
        assert not first.done()
        signs[2].set_result(None)
        assert await first == [1, 2]
        assert len(made) == 1, "large answers are not made twice"
        second = suspected_brokers.settled(answer, list)
        assert isinstance(second, asyncio.Future)
        suspected_brokers.suspect(1)  # its connection ended while it was asked
        for sign in signs.values():
            sign.set_result(None)
        await asyncio.sleep(0)
        assert not second.done()
        gone.add(1)
        suspected_brokers.look_again()
        assert await second == [2, 3]

    in_a_world(script)


def test_who_was_suspected_stays_listed_for_a_while() -> None:
    async def script(around: Surroundings, suspected_brokers: SuspectedBrokers) -> None:
        suspected_brokers.suspect(1)
        suspected_brokers.trust(1)
        assert suspected_brokers.lingering() == {1}
        await asyncio.sleep(LINGER_S)
        assert suspected_brokers.lingering() == set()

    in_a_world(script)


async def _asked(own: Surroundings, host: str) -> ClientConnection:
    memory = ReceiveMemory(own.loop)
    return await connect(own.loop, own.network, host, PORT, memory=memory, client_id="asker")


def test_a_client_that_asks_at_once_after_a_kill_hears_of_the_next_leader() -> None:
    """It asks over a connection that it has: no round trip more than the killed process needs to die."""

    async def script(cluster: NodeCluster) -> None:
        await cluster.start()
        await cluster.until(lambda: all(cluster.unfenced_on(each) == {1, 2, 3} for each in cluster.nodes))
        controller = cluster.controller_id()
        leader = next(each for each in cluster.ids if each != controller)
        other = next(each for each in cluster.ids if each not in (controller, leader))
        client = cluster.world.machine("client")

        async def ask(own: Surroundings) -> None:
            connection = await _asked(own, f"node{other}")
            assignment = CreatableReplicaAssignment(0, [leader, other])
            topic = CreatableTopic("t", -1, -1, [assignment])
            made = await connection.ask(CreateTopicsRequest([topic], 10_000), 5, CreateTopicsResponse)
            assert made.topics[0].error_code == 0
            wanted = MetadataRequest([MetadataRequestTopic(name="t")])
            await cluster.until(lambda: "t" in cluster.nodes[other].image.topics_by_name)
            before = await connection.ask(wanted, 9, MetadataResponse)
            assert before.topics[0].partitions[0].leader_id == leader
            await asyncio.sleep(0.1)
            killed_at = own.loop.time()
            cluster.kill(leader)
            after = await connection.ask(wanted, 9, MetadataResponse)
            assert own.loop.time() - killed_at < 0.5
            assert after.topics[0].partitions[0].leader_id == other
            assert {each.node_id for each in after.brokers} == {1, 2, 3}, "librdkafka needs it listed"
            everything = await connection.ask(MetadataRequest([]), 9, MetadataResponse)
            assert {each.node_id for each in everything.brokers} == {1, 2, 3} - {leader}
            connection.close()

        await cluster.world.result(client, client.boot(ask))

    for seed in range(3):
        cluster = NodeCluster(World(seed), nodes=3)
        try:
            cluster.world.run(script(cluster))
        finally:
            cluster.world.close()
