"""DescribeShareGroupOffsets tells where a share group stands, and how much is left."""

from headrace.wire.schemas.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from tests.server.node_world import Client, NodeWorld, simulated
from tests.server.share_members import ACCEPT, ShareMember, produce
from tests.server.test_share_fetch import set_group

Told = list[tuple[str, int, int, int, int]]


async def describe(client: Client, topics: dict[str, list[int]] | None = None, group: str = "g") -> Told:
    """Topic, partition, start offset, lag and error."""
    named = (
        None if topics is None else [DescribeShareGroupOffsetsRequestTopic(*each) for each in topics.items()]
    )
    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(group, named)])
    (reply,) = (await client.ask(request, 1)).groups
    if reply.error_code:
        return [("", -1, -1, -1, reply.error_code)]
    return [
        (topic.topic_name, each.partition_index, each.start_offset, each.lag, each.error_code)
        for topic in reply.topics
        for each in topic.partitions
    ]


@simulated()
async def test_start_and_lag_follow_what_is_acknowledged(world: NodeWorld) -> None:
    topic = (await world.create_topic("t"), 0)
    await set_group(world, "share.auto.offset.reset", "earliest")
    await produce(world, "t", *(b"%d" % number for number in range(10)))
    member = await ShareMember.connect(world)
    assert await describe(member.client) == []
    await member.join("t")
    assert await describe(member.client) == [("t", 0, -1, -1, 0)]
    await member.fetch()
    assert await describe(member.client) == [("t", 0, 0, 10, 0)]
    await member.acknowledge({topic: [(0, 1, [ACCEPT]), (4, 6, [ACCEPT])]})
    assert await describe(member.client) == [("t", 0, 2, 5, 0)]
    asked = {"t": [0, 7], "none": [1]}
    assert await describe(member.client, asked) == [
        ("t", 0, 2, 5, 0),
        ("t", 7, -1, -1, 0),
        ("none", 1, -1, -1, 0),
    ]
