"""ConsumerGroupDescribe: epochs, members, what they have and should have; groups that are none.

What Apache Kafka answers is compared in `test_consumer_group_heartbeat`, whose script describes its groups.
"""

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.consumer_group_describe import ConsumerGroupDescribeRequest
from headrace.wire.schemas.find_coordinator import FindCoordinatorRequest
from tests.server.beside_kafka.consumer_group_heartbeat import first
from tests.server.group_requests import join
from tests.server.node_world import Client, NodeWorld


async def _ready(world: NodeWorld) -> Client:
    await world.start()
    client = await world.connect()
    await client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 6)
    return client


def test_a_group_and_its_members() -> None:
    async def script() -> None:
        client = await _ready(world)
        await world.create_topic("t", 2)
        await client.ask(first("g", "m", "t", rack_id="west", server_assignor="range"), 1)
        request = ConsumerGroupDescribeRequest(["g"], include_authorized_operations=True)
        group = (await client.ask(request, 1)).groups[0]
        assert (group.error_code, group.group_state, group.assignor_name) == (0, "Stable", "range")
        assert (group.group_epoch, group.assignment_epoch) == (2, 2)
        assert group.authorized_operations > 0
        member = group.members[0]
        assert (member.member_id, member.rack_id, member.member_epoch, member.member_type) == (
            *("m", "west", 2, 1),
        )
        assert [each.topic_name for each in member.assignment.topic_partitions] == ["t"]
        assert member.assignment == member.target_assignment
        await world.stop()

    with NodeWorld() as world:
        world.run(script())


def test_a_group_that_is_none_or_classic_is_not_found() -> None:
    async def script() -> None:
        client = await _ready(world)
        await client.ask(join("classic"), 3)
        replies = (await client.ask(ConsumerGroupDescribeRequest(["none", "classic", ""]), 0)).groups
        assert [ErrorCode(each.error_code) for each in replies] == [
            ErrorCode.GROUP_ID_NOT_FOUND,
            ErrorCode.GROUP_ID_NOT_FOUND,
            ErrorCode.INVALID_GROUP_ID,
        ]
        await world.stop()

    with NodeWorld() as world:
        world.run(script())


def test_a_group_is_there_after_a_crash() -> None:
    async def script() -> None:
        client = await _ready(world)
        await world.create_topic("t", 2)
        await client.ask(first("g", "m", "t"), 1)
        request = ConsumerGroupDescribeRequest(["g"])
        before = await client.ask(request, 1)
        world.kill()
        await world.start()
        client = await world.connect()
        after = await client.ask(request, 1)
        assert after == before
        await world.stop()

    with NodeWorld() as world:
        world.run(script())
