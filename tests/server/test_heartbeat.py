"""Heartbeat: who is silent for too long is out, and who is alive stays."""

import asyncio
from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.api_versions import ApiVersionsRequest
from tests.server.beside_kafka.compare import assert_answers_as_kafka
from tests.server.group_members import GroupMember, stable_group
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


async def patient_pair(world: NodeWorld, software: str = "apache-kafka-java") -> list[GroupMember]:
    """A stable group of two, whose clients say what they are."""
    members = await stable_group(world, "g", 2, session_ms=10_000)
    for each in members:
        await each.client.ask(ApiVersionsRequest(software, "1.0"), 4)
    return members


def begin_heartbeat(member: GroupMember) -> "asyncio.Future[Any]":
    return member.client.ask(heartbeat("g", member.id, member.generation), 4)


@simulated()
async def test_news_come_with_the_heartbeat_that_waits_for_them(world: NodeWorld) -> None:
    members = await patient_pair(world)
    waiting = [begin_heartbeat(each) for each in members]
    await world.pass_time(2_000)
    assert not any(each.done() for each in waiting)
    newcomer = await GroupMember.connect(world, "g")
    began_ms = world.now_ms()
    joining = asyncio.ensure_future(newcomer.join())
    answers = [(await each).error_code for each in waiting]
    assert answers == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
    assert world.now_ms() - began_ms < 100
    assert await asyncio.gather(*(each.join() for each in members), joining) == [ErrorCode.NONE] * 3


@pytest.mark.parametrize(
    ("software", "answer"),
    [
        ("kafka-python", ErrorCode.NONE),
        ("librdkafka", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),  # which has it come again soon
    ],
)
@simulated()
async def test_a_heartbeat_that_waits_gives_way_to_the_next_request(
    world: NodeWorld, software: str, answer: ErrorCode
) -> None:
    members = await patient_pair(world, software)
    waiting = begin_heartbeat(members[0])
    await world.pass_time(500)
    assert not waiting.done()
    rejoining = members[0].begin_join()  # the leader wants a rebalance
    assert (await waiting).error_code == answer  # and not of the rebalance that it begins itself
    assert await members[1].heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    await members[1].join()
    assert (await rejoining).error_code == ErrorCode.NONE


@simulated()
async def test_a_member_that_is_always_held_lives(world: NodeWorld) -> None:
    members = await patient_pair(world)
    for _ in range(20):
        for waiting in [begin_heartbeat(each) for each in members]:
            assert (await waiting).error_code == ErrorCode.NONE
    assert len(world.node.parts.groups.shard_for("g").classic.groups["g"].members) == 2


@simulated()
async def test_a_connection_that_breaks_leaves_nothing_behind(world: NodeWorld) -> None:
    members = await patient_pair(world)
    waiting = begin_heartbeat(members[0])
    await world.pass_time(500)
    group = world.node.parts.groups.shard_for("g").classic.groups["g"]
    member = group.members[members[0].id]
    assert member.held_heartbeat is not None
    members[0].client.close()
    await world.until(lambda: member.held_heartbeat is None, "the heartbeat is given up")
    with pytest.raises(ConnectionError):
        await waiting
    # Its time-out for requests may be short: it is not held again, and has its whole session to come back.
    members[0].client = await world.connect()
    await members[0].client.ask(ApiVersionsRequest("apache-kafka-java", "1.0"), 4)
    began_ms = world.now_ms()
    assert await members[0].heartbeat() is ErrorCode.NONE
    assert world.now_ms() - began_ms < 100


@pytest.mark.parametrize(
    ("software", "is_held"),
    [("librdkafka", True), ("confluent-kafka-python", True), ("kgo", False), ("sarama", False)],
)
@simulated()
async def test_only_clients_that_take_it_well_are_held(
    world: NodeWorld, software: str, is_held: bool
) -> None:
    members = await patient_pair(world, software)
    waiting = begin_heartbeat(members[0])
    await world.pass_time(1_000)
    assert waiting.done() is not is_held
    assert (await waiting).error_code == ErrorCode.NONE
