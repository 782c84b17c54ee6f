"""Who says that an offset is out of range must lead: a consumer that hears it gives the offset up."""

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.simulation.test_replicated_nodes import Script, T, play

VERSION = 11
"""Of clients that may read from followers, and need not say which leader epoch they know of."""


async def code_of_fetch(script: Script, node_id: int, offset: int, *, wait_ms: int = 500) -> int:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic=T.topic, partitions=[partition])
    client = await script.client(node_id)
    response = await client.ask(FetchRequest(max_wait_ms=wait_ms, min_bytes=1, topics=[topic]), VERSION)
    code: int = response.responses[0].partitions[0].error_code
    return code


@pytest.mark.parametrize("seed", range(31, 35))
def test_a_leader_that_was_replaced_while_it_stood_still_does_not_say_so(seed: int) -> None:
    script = Script(seed)

    async def work() -> None:
        await script.create()
        await script.write(3)
        await script.until_equal(1, 2, 3)
        first = script.leader()
        assert first is not None
        await script.client(first)
        machine = script.cluster.machine(first)
        machine.pause()
        await script.write(3)
        assert script.leader() != first
        asked = script.world.driver.create_task(code_of_fetch(script, first, 6))
        machine.resume()
        assert await asked == ErrorCode.NOT_LEADER_OR_FOLLOWER

    play(script, work)


@pytest.mark.parametrize("seed", range(35, 38))
def test_a_follower_that_lags_does_not_say_so(seed: int) -> None:
    script = Script(seed)

    async def work() -> None:
        await script.create()
        await script.write(3)
        leader = script.leader()
        assert leader is not None
        behind = next(each for each in (1, 2, 3) if each != leader)
        for other in {1, 2, 3} - {behind}:
            script.world.network.partition([f"node{behind}"], [f"node{other}"])
        await script.write(3)
        assert await code_of_fetch(script, behind, 6) == ErrorCode.NOT_LEADER_OR_FOLLOWER

    play(script, work)


@pytest.mark.parametrize("wait_ms", [0, 500])
def test_a_leader_that_is_followed_says_so_without_delay(wait_ms: int) -> None:
    script = Script(38)

    async def work() -> None:
        await script.create()
        await script.write(3)
        await script.until_equal(1, 2, 3)
        leader = script.leader()
        assert leader is not None
        asked_at = script.world.virtual_s
        assert await code_of_fetch(script, leader, 4, wait_ms=wait_ms) == ErrorCode.OFFSET_OUT_OF_RANGE
        assert script.world.virtual_s - asked_at < 0.2
        script.cluster.kill(next(each for each in (1, 2, 3) if each != leader))
        await script.cluster.until(lambda: len(script.in_sync()) == 2)
        assert await code_of_fetch(script, leader, 4, wait_ms=wait_ms) == ErrorCode.OFFSET_OUT_OF_RANGE

    play(script, work)


def test_the_only_replica_says_so_at_once() -> None:
    script = Script(39, min_insync_replicas="1")

    async def work() -> None:
        await script.create(replicas=1)
        await script.write(3)
        leader = script.leader()
        assert leader is not None
        assert await code_of_fetch(script, leader, 4, wait_ms=0) == ErrorCode.OFFSET_OUT_OF_RANGE

    play(script, work)
