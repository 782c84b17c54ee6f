"""LeaveGroup: who leaves is gone at once, and the others rebalance."""

import asyncio

from headrace.base.error_codes import ErrorCode
from tests.server.beside_kafka.compare import assert_answers_as_kafka
from tests.server.group_members import stable_group
from tests.server.group_requests import leave
from tests.server.node_world import NodeWorld, simulated


def test_answers_as_kafka_does() -> None:
    assert_answers_as_kafka("leave_group")


@simulated()
async def test_the_others_rebalance_at_once(world: NodeWorld) -> None:
    members = await stable_group(world, "g", 3)
    assert await members[0].leave() is ErrorCode.NONE
    assert [await each.heartbeat() for each in members[1:]] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
    await asyncio.gather(*(each.join() for each in members[1:]))
    assert sum(each.leads for each in members[1:]) == 1
    assert {each.generation for each in members[1:]} == {4}


@simulated()
async def test_an_administrator_takes_several_out_with_one_request(world: NodeWorld) -> None:
    members = await stable_group(world, "g", 3)
    client = await world.connect("admin")
    response = await client.ask(leave("g", *(each.id for each in members)), 5)
    assert [each.error_code for each in response.members] == [0, 0, 0]
    assert world.node.parts.groups.shard_for("g").classic.groups["g"].state == "Empty"


@simulated()
async def test_no_coordinator_yet(world: NodeWorld) -> None:
    client = await world.connect()
    assert (await client.ask(leave("g", "m"), 5)).error_code == ErrorCode.NOT_COORDINATOR
