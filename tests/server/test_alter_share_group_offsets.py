"""AlterShareGroupOffsets moves the start of a share group that nobody uses."""

import asyncio
from typing import Any

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
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
