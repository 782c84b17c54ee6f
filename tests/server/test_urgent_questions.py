"""A client that asks who leads or coordinates does not wait behind its own long poll."""

import asyncio

import pytest

from headrace.wire.schemas.find_coordinator import FindCoordinatorRequest
from headrace.wire.schemas.metadata import MetadataRequest, MetadataRequestTopic
from tests.server.beside_kafka.fetch import fetch
from tests.server.node_world import NodeWorld, simulated

URGENT = {
    "metadata": (MetadataRequest([MetadataRequestTopic(name="t")]), 9),
    "find_coordinator": (FindCoordinatorRequest("g"), 2),
}


@pytest.mark.parametrize("name", URGENT)
@simulated()
async def test_a_fetch_that_waits_gives_way(world: NodeWorld, name: str) -> None:
    await world.create_topic("t")
    client = await world.connect()
    await client.ask(FindCoordinatorRequest("g"), 2)  # the coordinator's topic is made
    began = world.world.virtual_s
    for _ in range(2):
        waiting = client.ask(fetch("t", wait_ms=10_000), 11)
        await asyncio.sleep(0.1)
        assert not waiting.done()
        answer = await client.ask(*URGENT[name])
        assert waiting.done(), "replies leave in order"
        assert not waiting.result().responses[0].partitions[0].records
        assert answer.throttle_time_ms == 0
    assert world.world.virtual_s - began < 1.0


@pytest.mark.parametrize("name", URGENT)
@simulated()
async def test_all_fetches_that_wait_give_way(world: NodeWorld, name: str) -> None:
    await world.create_topic("t")
    client = await world.connect()
    await client.ask(FindCoordinatorRequest("g"), 2)  # the coordinator's topic is made
    began = world.world.virtual_s
    waiting = [client.ask(fetch("t", wait_ms=10_000), 11) for _ in range(3)]
    await asyncio.sleep(0.1)
    assert not any(each.done() for each in waiting)
    await client.ask(*URGENT[name])
    assert all(each.done() for each in waiting)
    assert world.world.virtual_s - began < 1.0


@simulated()
async def test_another_fetch_behind_it_does_not_hurry_it(world: NodeWorld) -> None:
    """Two that made way for each other would never wait at all."""
    await world.create_topic("t")
    client = await world.connect()
    waiting = [client.ask(fetch("t", wait_ms=5_000), 11) for _ in range(2)]
    await asyncio.sleep(2)
    assert not any(each.done() for each in waiting)
    client.close()
    with pytest.raises(ConnectionError):
        await waiting[1]
    waiting[0].exception()
