"""DescribeGroups: members as they are, before and after a restart."""

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.describe_groups import DescribedGroup, DescribeGroupsRequest
from tests.server.beside_kafka.compare import assert_answers_as_kafka
from tests.server.group_members import stable_group
from tests.server.group_requests import subscription
from tests.server.node_world import Client, NodeWorld, simulated

NEWEST = 6


def test_answers_as_kafka_does() -> None:
    assert_answers_as_kafka("group_admin", "DescribeGroups")


async def describe(client: Client, group: str) -> DescribedGroup:
    response = await client.ask(DescribeGroupsRequest([group]), NEWEST)
    found: DescribedGroup = response.groups[0]
    return found


@simulated()
async def test_members_are_shown_alike_after_a_restart(world: NodeWorld) -> None:
    await stable_group(world, "g", 2)
    before = await describe(await world.connect(), "g")
    assert (before.group_state, before.protocol_type, before.protocol_data) == ("Stable", "consumer", "range")
    assert [each.client_id for each in before.members] == ["c0", "c1"]
    assert {each.client_host for each in before.members} == {"/10.0.0.1"}
    assert [each.member_metadata for each in before.members] == [subscription("range")] * 2
    assert [each.member_assignment for each in before.members] == [b"share"] * 2
    world.kill()
    await world.start()
    after = await describe(await world.connect(), "g")
    assert after == before


@simulated()
async def test_no_coordinator_yet(world: NodeWorld) -> None:
    assert (await describe(await world.connect(), "g")).error_code == ErrorCode.NOT_COORDINATOR
