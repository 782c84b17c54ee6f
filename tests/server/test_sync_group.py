"""SyncGroup: shares are told when they are in the log."""

import asyncio

from headrace.base.error_codes import ErrorCode
from tests.server.beside_kafka.compare import assert_answers_as_kafka
from tests.server.group_members import GroupMember, stable_group
from tests.server.group_requests import sync
from tests.server.node_world import NodeWorld, simulated
from tests.server.partition_states import two_replicas


def test_answers_as_kafka_does() -> None:
    assert_answers_as_kafka("sync_group")


@simulated()
async def test_followers_wait_for_the_leader(world: NodeWorld) -> None:
    members = await stable_group(world, "g", 2)
    joining = [asyncio.ensure_future(each.join(protocols=["range", "new"])) for each in members]
    await asyncio.gather(*joining)
    waiting = members[1].begin_sync()
    await world.pass_time(5_000)
    assert not waiting.done()
    shares = {members[0].id: b"left", members[1].id: b"right"}
    request = sync("g", members[0].id, members[0].generation, shares)
    assert (await members[0].client.ask(request, 5)).assignment == b"left"
    assert (await waiting).assignment == b"right"


@simulated()
async def test_who_never_asks_for_its_share_is_out_after_the_rebalance_time(world: NodeWorld) -> None:
    members = await stable_group(world, "g", 2, rebalance_ms=8_000, session_ms=60_000)
    await asyncio.gather(*(each.join(protocols=["range", "new"]) for each in members))
    await members[0].sync()
    await world.pass_time(8_100)
    assert await members[1].heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert await members[0].heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS


@simulated()
async def test_an_assignment_that_cannot_be_written_is_told_to_nobody(world: NodeWorld) -> None:
    member = await GroupMember.connect(world, "g")
    await member.join()
    index = world.node.parts.groups.partition_of("g")
    partition = world.partition("__consumer_offsets", index)
    partition.follow_metadata(two_replicas(2, leader=2, epoch=1))
    response = await member.begin_sync()
    assert response.error_code == ErrorCode.NOT_COORDINATOR
    partition.follow_metadata(two_replicas(1, epoch=2))
    assert await member.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert await member.join() is ErrorCode.NONE
    assert await member.sync() == b"share"


@simulated()
async def test_shares_wait_until_all_replicas_have_them(world: NodeWorld) -> None:
    member = await GroupMember.connect(world, "g")
    await member.join()
    partition = world.partition("__consumer_offsets", world.node.parts.groups.partition_of("g"))
    partition.follow_metadata(two_replicas(1, 2))
    waiting = member.begin_sync()
    await world.pass_time(1_000)
    assert not waiting.done()
    partition.follow_metadata(two_replicas(1))
    assert (await waiting).assignment == b"share"
