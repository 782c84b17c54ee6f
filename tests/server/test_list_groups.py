"""ListGroups: all groups of the node, and none while it does not know all."""

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.list_groups import ListGroupsRequest
from tests.server.beside_kafka.compare import assert_answers_as_kafka
from tests.server.beside_kafka.find_coordinator import ask_for
from tests.server.group_requests import commit
from tests.server.node_world import NodeWorld, simulated

NEWEST = 5


def test_answers_as_kafka_does() -> None:
    assert_answers_as_kafka("group_admin", "ListGroups")


@simulated(offsets_topic_num_partitions="5")
async def test_groups_of_all_partitions(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    assert (await client.ask(ListGroupsRequest(), NEWEST)).groups == []
    await client.ask(ask_for(6, "g"), 6)
    names = {f"group-{number}" for number in range(20)}
    for name in names:
        await client.ask(commit(name, "t", {0: 1}), 9)
    response = await client.ask(ListGroupsRequest(), NEWEST)
    assert {each.group_id for each in response.groups} == names
    assert len(response.groups) == 20


@simulated()
async def test_a_list_with_holes_is_none(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    await client.ask(ask_for(6, "g"), 6)
    runtime = world.node.parts.groups.runtime
    shard = next(iter(runtime._contexts.values()))
    shard.active = False
    response = await client.ask(ListGroupsRequest(), NEWEST)
    assert (response.error_code, response.groups) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])
    shard.active = True
