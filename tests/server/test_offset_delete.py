"""OffsetDelete: offsets that nobody reads on from can be forgotten for good."""

from headrace.base.error_codes import ErrorCode
from tests.server.beside_kafka.compare import assert_answers_as_kafka
from tests.server.beside_kafka.find_coordinator import ask_for
from tests.server.beside_kafka.group_admin import forget
from tests.server.group_members import stable_group
from tests.server.group_requests import commit, subscription
from tests.server.node_world import NodeWorld, simulated
from tests.server.test_offset_commit import committed

BY_NAME = 9


def test_answers_as_kafka_does() -> None:
    assert_answers_as_kafka("group_admin", "OffsetDelete")


@simulated()
async def test_deleted_offsets_stay_deleted(world: NodeWorld) -> None:
    await world.create_topic("t", 2)
    client = await world.connect()
    await client.ask(ask_for(6, "g"), 6)
    await client.ask(commit("g", "t", {0: 5, 1: 6}), BY_NAME)
    response = await client.ask(forget("g", t=[0]), 0)
    assert response.topics[0].partitions[0].error_code == ErrorCode.NONE
    await world.stop()
    await world.start()
    client = await world.connect()
    assert [await committed(client, "g", "t", index) for index in (0, 1)] == [-1, 6]


@simulated()
async def test_topics_that_a_member_reads_are_kept(world: NodeWorld) -> None:
    await world.create_topic("read")
    await world.create_topic("unread")
    members = await stable_group(world, "g", 1, protocols={"range": subscription("read")})
    for topic in ("read", "unread"):
        request = commit("g", topic, {0: 5}, member=members[0].id, generation=1)
        await members[0].client.ask(request, BY_NAME)
    response = await members[0].client.ask(forget("g", read=[0], unread=[0]), 0)
    codes = {each.name: each.partitions[0].error_code for each in response.topics}
    assert codes == {"read": ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, "unread": ErrorCode.NONE}
    assert await committed(members[0].client, "g", "read") == 5
    assert await committed(members[0].client, "g", "unread") == -1


@simulated()
async def test_no_coordinator_yet(world: NodeWorld) -> None:
    client = await world.connect()
    assert (await client.ask(forget("g", t=[0]), 0)).error_code == ErrorCode.NOT_COORDINATOR
