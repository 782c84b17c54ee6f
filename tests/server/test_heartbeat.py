"""Heartbeat: who is silent for too long is out, and who is alive stays."""

from headrace.base.error_codes import ErrorCode
from tests.server.beside_kafka.compare import assert_answers_as_kafka
from tests.server.group_members import stable_group
from tests.server.group_requests import commit, heartbeat
from tests.server.node_world import NodeWorld, simulated


def test_answers_as_kafka_does() -> None:
    assert_answers_as_kafka("heartbeat")


@simulated()
async def test_silence_ends_a_session_to_the_millisecond(world: NodeWorld) -> None:
    members = await stable_group(world, "g", 1, session_ms=10_000)
    for _ in range(5):
        await world.pass_time(9_990)
        assert await members[0].heartbeat() is ErrorCode.NONE
    await world.pass_time(10_001)
    assert await members[0].heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


@simulated()
async def test_the_others_hear_of_it(world: NodeWorld) -> None:
    members = await stable_group(world, "g", 3, session_ms=10_000)
    for _ in range(3):
        await world.pass_time(4_000)
        answers = [await each.heartbeat() for each in members[:2]]
    assert answers == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
    assert await members[2].heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


@simulated()
async def test_a_commit_is_as_good_as_a_heartbeat(world: NodeWorld) -> None:
    await world.create_topic("t")
    members = await stable_group(world, "g", 1, session_ms=10_000)
    for offset in range(4):
        await world.pass_time(8_000)
        request = commit("g", "t", {0: offset}, member=members[0].id, generation=1)
        response = await members[0].client.ask(request, 9)
        assert response.topics[0].partitions[0].error_code == 0
    assert await members[0].heartbeat() is ErrorCode.NONE


@simulated()
async def test_a_static_member_is_missed_for_as_long_as_its_session(world: NodeWorld) -> None:
    members = await stable_group(world, "g", 1, session_ms=60_000, instance="seat")
    members[0].client.close()
    await world.pass_time(50_000)
    client = await world.connect()
    request = heartbeat("g", members[0].id, 1, "seat")
    assert (await client.ask(request, 4)).error_code == ErrorCode.NONE
    await world.pass_time(61_000)
    assert (await client.ask(request, 4)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@simulated()
async def test_no_coordinator_yet(world: NodeWorld) -> None:
    client = await world.connect()
    assert (await client.ask(heartbeat("g", "m", 1), 4)).error_code == ErrorCode.NOT_COORDINATOR
