"""DeleteShareGroupOffsets forgets where an empty share group stands."""

from typing import Any

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import NO_TOPIC_ID
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
    assert all((each.error_code == 0) == (each.topic_id != NO_TOPIC_ID) for each in reply.responses)
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
    assert await delete(member.client, "t", "none", "t") == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert await describe(member.client) == [("u", 0, -1, -1, 0)]
    assert await delete(member.client, "t", "u") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
    await member.join("t")
    assert await describe(member.client) == [("t", 0, -1, -1, 0)]
    assert len(member.assigned) == 1


@simulated()
async def test_no_group_is_no_group_wherever_it_would_be(world: NodeWorld) -> None:
    client = await world.connect()
    assert await delete(client, "t", group="") == ErrorCode.INVALID_GROUP_ID
    assert await delete(client, "t") == ErrorCode.NOT_COORDINATOR
