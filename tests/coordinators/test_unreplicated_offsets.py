"""Commits that are not replicated, on three nodes: nobody is told of an offset that may yet be lost."""

import asyncio

from headrace.base.error_codes import ErrorCode
from headrace.base.internal_topics import OFFSETS_TOPIC
from headrace.testing.machine import Surroundings
from headrace.testing.node_cluster import NodeCluster
from headrace.testing.world import World
from headrace.transport.client_connection import ClientConnection, connect
from headrace.transport.receive_memory import ReceiveMemory
from headrace.wire.schemas.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from headrace.wire.schemas.find_coordinator import FindCoordinatorResponse
from headrace.wire.schemas.offset_commit import OffsetCommitResponse
from headrace.wire.schemas.offset_fetch import OffsetFetchResponse
from tests.server.beside_kafka.find_coordinator import ask_for
from tests.server.group_requests import commit, fetch_offsets

PORT = 9092
GROUP = "g"
BY_NAME = 9


class Asker:
    """Commits and fetches, each over a connection of its own."""

    def __init__(self, cluster: NodeCluster, own: Surroundings) -> None:
        self._cluster = cluster
        self._own = own

    async def to(self, node_id: int) -> ClientConnection:
        own = self._own
        return await connect(
            own.loop, own.network, f"node{node_id}", PORT, memory=ReceiveMemory(own.loop), client_id="asker"
        )

    async def coordinator(self) -> int:
        """The node that serves the group, once there is one."""
        while True:
            for node_id in list(self._cluster.nodes):
                connection = await self.to(node_id)
                found = await connection.ask(ask_for(3, GROUP), 3, FindCoordinatorResponse)
                connection.close()
                if found.error_code == ErrorCode.NONE:
                    return found.node_id
            await asyncio.sleep(0.05)

    async def commit(self, node_id: int, offset: int) -> ErrorCode:
        connection = await self.to(node_id)
        request = commit(GROUP, "t", {0: offset})
        response = await connection.ask(request, BY_NAME, OffsetCommitResponse)
        connection.close()
        return ErrorCode(response.topics[0].partitions[0].error_code)

    async def fetch(self, node_id: int) -> int | ErrorCode:
        connection = await self.to(node_id)
        response = await connection.ask(fetch_offsets(BY_NAME, GROUP, "t"), BY_NAME, OffsetFetchResponse)
        connection.close()
        (group,) = response.groups
        if group.error_code:
            return ErrorCode(group.error_code)
        return group.topics[0].partitions[0].committed_offset


def play(seed: int) -> tuple[int | ErrorCode, int | ErrorCode]:
    """What is heard from a coordinator that has lost its followers, and from the next one."""
    cluster = NodeCluster(World(seed), nodes=3, settings={"offsets.topic.num.partitions": "1"})
    heard: list[int | ErrorCode] = []

    async def ask(own: Surroundings) -> None:
        asker = Asker(cluster, own)
        connection = await asker.to(1)
        request = CreateTopicsRequest([CreatableTopic("t", 1, 3)], 10_000)
        await connection.ask(request, 5, CreateTopicsResponse)
        connection.close()
        leader = await asker.coordinator()
        while await asker.commit(leader, 5) is not ErrorCode.NONE:
            await asyncio.sleep(0.05)
        assert await asker.fetch(leader) == 5
        others = [each for each in cluster.ids if each != leader]
        cluster.world.network.partition([f"node{leader}"], [f"node{each}" for each in others])
        lost = asyncio.ensure_future(asker.commit(leader, 9))
        await cluster.until(lambda: _offset_on(cluster, leader) == 9)
        heard.append(await asker.fetch(leader))
        assert await lost is not ErrorCode.NONE
        await cluster.until(lambda: _leader_on(cluster, others[0]) not in (leader, -1))
        found = _leader_on(cluster, others[0])
        while isinstance(offset := await asker.fetch(found), ErrorCode):
            await asyncio.sleep(0.05)
        heard.append(offset)

    async def script() -> None:
        await cluster.start()
        await cluster.until(lambda: all(cluster.unfenced_on(each) == {1, 2, 3} for each in cluster.nodes))
        client = cluster.world.machine("client")
        await cluster.world.result(client, client.boot(ask))

    try:
        cluster.world.run(script())
    finally:
        cluster.world.close()
    return heard[0], heard[1]


def _leader_on(cluster: NodeCluster, node_id: int) -> int:
    return cluster.nodes[node_id].image.topics_by_name[OFFSETS_TOPIC].partitions[0].leader


def _offset_on(cluster: NodeCluster, node_id: int) -> int | None:
    """What a coordinator has taken in, replicated or not."""
    machine = cluster.nodes[node_id].parts.groups.shard_for(GROUP)
    return next((each.offset for each in machine.offsets.of(GROUP).values()), None)


def test_a_commit_that_is_lost_was_never_shown() -> None:
    from_the_old, from_the_new = play(1)
    assert from_the_new == 5
    assert from_the_old in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
