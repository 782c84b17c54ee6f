"""AlterShareGroupOffsets moves the start of a share group that nobody uses."""

import asyncio
from typing import Any

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from headrace.wire.schemas.share_group_describe import ShareGroupDescribeRequest
from tests.server.node_world import Client, NodeWorld, simulated
from tests.server.share_members import ShareMember, acquired, produce
from tests.server.test_describe_share_group_offsets import describe


async def alter(client: Client, topic: str, partition: int, offset: int, group: str = "g") -> Any:
    partitions = [AlterShareGroupOffsetsRequestPartition(partition, offset)]
    request = AlterShareGroupOffsetsRequest(group, [AlterShareGroupOffsetsRequestTopic(topic, partitions)])
    reply = await client.ask(request, 0)
    return reply.error_code or reply.responses[0].partitions[0].error_code


@simulated()
async def test_members_begin_where_they_are_told_to(world: NodeWorld) -> None:
    await world.create_topic("t")
    await produce(world, "t", *(b"%d" % number for number in range(10)), together=False)
    member = await ShareMember.connect(world)
    await member.join("t")
    assert acquired(await member.fetch()) == []
    assert await alter(member.client, "t", 0, 4) == ErrorCode.NON_EMPTY_GROUP
    await member.fetch(epoch=-1)
    await member.heartbeat(-1)
    assert await alter(member.client, "t", 0, 4) == 0
    assert await alter(member.client, "t", 1, 4) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await describe(member.client) == [("t", 0, 4, 6, 0)]
    again = await ShareMember.connect(world, member_id="m2")
    await again.join("t")
    assert acquired(await again.fetch()) == [(4, 9, 1)]


@simulated()
async def test_a_group_can_be_placed_before_it_has_members(world: NodeWorld) -> None:
    await world.create_topic("t")
    await produce(world, "t", b"a", b"b", b"c", together=False)
    member = await ShareMember.connect(world)
    assert await alter(member.client, "t", 0, 1) == 0
    await member.join("t")
    assert acquired(await member.fetch()) == [(1, 2, 1)]


@simulated()
async def test_what_changes_nothing_is_not_written(world: NodeWorld) -> None:
    """Nor does it make a group, or its epoch grow."""
    await world.create_topic("t")
    member = await ShareMember.connect(world)

    async def epoch() -> int | None:
        group = (await member.client.ask(ShareGroupDescribeRequest(["g"]), 1)).groups[0]
        return None if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND else group.group_epoch

    for topics in ([], [AlterShareGroupOffsetsRequestTopic("t", [])]):
        assert (await member.client.ask(AlterShareGroupOffsetsRequest("g", topics), 0)).error_code == 0
    assert await alter(member.client, "t", 7, 0) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await epoch() is None
    assert await alter(member.client, "t", 0, 1) == 0
    before = await epoch()
    assert await alter(member.client, "none", 0, 0) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await epoch() == before


@simulated()
async def test_no_group_is_no_group_wherever_it_would_be(world: NodeWorld) -> None:
    client = await world.connect()
    assert await alter(client, "t", 0, 0, group="") == ErrorCode.INVALID_GROUP_ID
    assert await alter(client, "t", 0, 0) == ErrorCode.NOT_COORDINATOR


@simulated()
async def test_who_joins_meanwhile_begins_where_it_was_told_too(world: NodeWorld) -> None:
    await world.create_topic("t")
    await produce(world, "t", b"a", b"b", b"c", together=False)
    member = await ShareMember.connect(world)
    operator = await world.connect()
    altering = asyncio.ensure_future(alter(operator, "t", 0, 1))
    await world.pass_time(1)
    await member.join("t")
    assert await altering == 0
    while not member.assigned:
        await world.pass_time(500)
        await member.heartbeat()
    assert acquired(await member.fetch()) == [(1, 2, 1)]
