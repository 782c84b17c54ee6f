"""DeleteShareGroupOffsets forgets where an empty share group stands."""

from typing import Any

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from tests.server.node_world import Client, NodeWorld, simulated
from tests.server.share_members import ShareMember
from tests.server.test_describe_share_group_offsets import describe


async def delete(client: Client, *topics: str, group: str = "g") -> Any:
    named = [DeleteShareGroupOffsetsRequestTopic(each) for each in topics]
    reply = await client.ask(DeleteShareGroupOffsetsRequest(group, named), 0)
    return reply.error_code or [each.error_code for each in reply.responses]


@simulated()
async def test_a_topic_is_forgotten_and_can_be_read_anew(world: NodeWorld) -> None:
    await world.create_topic("t")
    await world.create_topic("u")
    member = await ShareMember.connect(world)
    assert await delete(member.client, "t") == ErrorCode.GROUP_ID_NOT_FOUND
    await member.join("t", "u")
    assert await delete(member.client, "t") == ErrorCode.NON_EMPTY_GROUP
    await member.heartbeat(-1)
    assert await delete(member.client, "t", "none") == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert await describe(member.client) == [("u", 0, -1, -1, 0)]
    assert await delete(member.client, "t") == [0]
    await member.join("t")
    assert [each for each in await describe(member.client) if each[0] == "t"] == [("t", 0, -1, -1, 0)]
    assert len(member.assigned) == 1
