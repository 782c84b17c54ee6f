"""JoinGroup: who waits, for whom and how long."""

import asyncio

import pytest

from headrace.base.error_codes import ErrorCode
from tests.server.beside_kafka.compare import assert_answers_as_kafka
from tests.server.group_members import GroupMember, stable_group
from tests.server.group_requests import join
from tests.server.node_world import NodeWorld, simulated


def test_answers_as_kafka_does() -> None:
    assert_answers_as_kafka("join_group")


@simulated()
async def test_three_members_join_one_after_the_other(world: NodeWorld) -> None:
    members = await stable_group(world, "g", 3)
    assert [each.generation for each in members] == [3, 3, 3]
    assert [each.leads for each in members] == [True, False, False]
    assert set(members[0].members) == {each.id for each in members}


@simulated(group_initial_rebalance_delay_ms="3000")
async def test_a_new_group_waits_for_more_members(world: NodeWorld) -> None:
    members = [await GroupMember.connect(world, "g", f"c{number}") for number in range(3)]
    begun_ms = world.now_ms()
    joining = []
    for member in members:
        joining.append(asyncio.ensure_future(member.join()))
        await world.pass_time(1_000)
    assert await asyncio.gather(*joining) == [ErrorCode.NONE] * 3
    # The last came after 2 s, and was waited with for 3.
    assert 5_000 <= world.now_ms() - begun_ms < 5_100
    assert [each.generation for each in members] == [1, 1, 1]


@simulated()
async def test_who_does_not_come_back_in_time_is_left_behind(world: NodeWorld) -> None:
    members = await stable_group(world, "g", 2, rebalance_ms=20_000, session_ms=30_000)
    newcomer = await GroupMember.connect(world, "g", "new", rebalance_ms=20_000)
    begun_ms = world.now_ms()
    joining = asyncio.ensure_future(newcomer.join())
    await world.until(lambda: bool(newcomer.id), "an id")
    await world.pass_time(100)
    assert await members[0].heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert await members[0].join() is ErrorCode.NONE
    await joining
    assert 20_000 <= world.now_ms() - begun_ms < 20_100
    assert set(members[0].members) == {members[0].id, newcomer.id}
    assert await members[1].heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


@simulated()
async def test_the_largest_rebalance_time_of_a_member_counts(world: NodeWorld) -> None:
    first = await GroupMember.connect(world, "g", "first", rebalance_ms=50_000, session_ms=100_000)
    await first.join()
    await first.sync()
    second = await GroupMember.connect(world, "g", "second", rebalance_ms=5_000, session_ms=100_000)
    begun_ms = world.now_ms()
    assert await second.join() is ErrorCode.NONE  # the first does not come
    assert 50_000 <= world.now_ms() - begun_ms < 50_200
    assert second.leads


@pytest.mark.parametrize("version", [0, 9])
@simulated()
async def test_no_coordinator_yet(world: NodeWorld, version: int) -> None:
    client = await world.connect()
    response = await client.ask(join("g"), version)
    assert response.error_code == ErrorCode.NOT_COORDINATOR


@simulated()
async def test_a_client_that_hangs_up_while_it_waits_is_out_after_its_session(world: NodeWorld) -> None:
    members = await stable_group(world, "g", 1, session_ms=30_000, rebalance_ms=300_000)
    newcomer = await GroupMember.connect(world, "g", "new", session_ms=10_000)
    newcomer.id = (await newcomer.begin_join()).member_id
    gone = newcomer.begin_join()
    await world.pass_time(100)
    newcomer.client.close()
    with pytest.raises(ConnectionError):
        await gone
    # It joined, so it counts; it never asks for its share, so it does not count for ever.
    assert await members[0].join() is ErrorCode.NONE
    assert len(members[0].members) == 2
    await members[0].sync()
    for _ in range(3):
        await world.pass_time(5_000)
        last = await members[0].heartbeat()
    assert last is ErrorCode.REBALANCE_IN_PROGRESS
    assert await members[0].join() is ErrorCode.NONE
    assert members[0].members == [members[0].id]


@simulated()
async def test_a_group_that_everyone_left_begins_again(world: NodeWorld) -> None:
    members = await stable_group(world, "g", 2)
    for member in members:
        assert await member.leave() is ErrorCode.NONE
    newcomer = await GroupMember.connect(world, "g", "new", protocol_type="connect")
    assert await newcomer.join() is ErrorCode.NONE
    assert newcomer.generation == 4
