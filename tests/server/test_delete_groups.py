"""DeleteGroups: groups without members go, with all that they committed, and do not come back."""

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.delete_groups import DeleteGroupsRequest
from headrace.wire.schemas.list_groups import ListGroupsRequest
from tests.server.beside_kafka.compare import assert_answers_as_kafka
from tests.server.beside_kafka.find_coordinator import ask_for
from tests.server.group_members import stable_group
from tests.server.group_requests import commit
from tests.server.node_world import NodeWorld, simulated
from tests.server.test_offset_commit import committed

NEWEST = 3


def test_answers_as_kafka_does() -> None:
    assert_answers_as_kafka("group_admin", "DeleteGroups")


@simulated()
async def test_a_deleted_group_is_gone_after_a_restart(world: NodeWorld) -> None:
    await world.create_topic("t")
    members = await stable_group(world, "g", 1)
    client = await world.connect()
    request = commit("g", "t", {0: 5}, member=members[0].id, generation=1)
    await members[0].client.ask(request, 9)
    await client.ask(commit("kept", "t", {0: 6}), 9)
    response = await client.ask(DeleteGroupsRequest(["g"]), NEWEST)
    assert response.results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    assert response.results[0].error_message == "The group is not empty."
    await members[0].leave()
    response = await client.ask(DeleteGroupsRequest(["g"]), NEWEST)
    assert response.results[0].error_code == ErrorCode.NONE
    await world.stop()
    await world.start()
    client = await world.connect()
    assert [each.group_id for each in (await client.ask(ListGroupsRequest(), 5)).groups] == ["kept"]
    assert [await committed(client, each, "t") for each in ("g", "kept")] == [-1, 6]


@simulated()
async def test_a_new_group_of_the_same_name_knows_nothing_of_the_old_one(world: NodeWorld) -> None:
    await world.create_topic("t")
    members = await stable_group(world, "g", 2)
    for member in members:
        await member.leave()
    client = await world.connect()
    await client.ask(DeleteGroupsRequest(["g"]), NEWEST)
    again = await stable_group(world, "g", 1, protocol_type="connect")
    assert again[0].generation == 1
    await world.pass_time(5_000)
    assert await again[0].heartbeat() is ErrorCode.NONE


@simulated()
async def test_no_coordinator_yet(world: NodeWorld) -> None:
    client = await world.connect()
    response = await client.ask(DeleteGroupsRequest(["a", "b"]), NEWEST)
    assert [each.error_code for each in response.results] == [ErrorCode.NOT_COORDINATOR] * 2


@simulated()
async def test_a_write_that_fails_deletes_nothing(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    await client.ask(ask_for(6, "g"), 6)
    await client.ask(commit("g", "t", {0: 5}), 9)
    world.machine.disk.faults.is_full = True
    response = await client.ask(DeleteGroupsRequest(["g"]), NEWEST)
    assert response.results[0].error_code != ErrorCode.NONE
    world.machine.disk.faults.calm()
    assert await committed(client, "g", "t") == 5
