"""Vote through its handler: who is voted for, and what is refused."""

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.vote import RequestPartitionData, RequestTopicData, VoteRequest, VoteResponse
from tests.server.node_world import NodeWorld, simulated


def asked(world: NodeWorld, **fields: object) -> VoteRequest:
    partition = RequestPartitionData(**{"replica_id": 2, "last_offset": 100, **fields})  # type: ignore[arg-type]
    return VoteRequest(world.node.cluster_id, 1, [RequestTopicData("__cluster_metadata", [partition])])


def said(response: VoteResponse) -> tuple[int, int, int, bool]:
    partition = response.topics[0].partitions[0]
    return partition.error_code, partition.leader_id, partition.leader_epoch, partition.vote_granted


@pytest.mark.parametrize("version", range(3))
@simulated()
async def test_an_older_epoch_is_told_who_leads(world: NodeWorld, version: int) -> None:
    client = await world.connect_controller()
    response = await client.ask(asked(world, replica_epoch=0), version)
    assert said(response) == (ErrorCode.FENCED_LEADER_EPOCH, 1, 1, False)
    if version:
        assert [(node.node_id, node.port) for node in response.node_endpoints] == [(1, 9093)]


@simulated()
async def test_a_leader_wants_no_other(world: NodeWorld) -> None:
    client = await world.connect_controller()
    response = await client.ask(asked(world, replica_epoch=1, last_offset_epoch=1, pre_vote=True), 2)
    assert said(response) == (0, 1, 1, False)


@simulated()
async def test_a_vote_is_remembered_before_it_is_given(world: NodeWorld) -> None:
    client = await world.connect_controller()
    world.note_voters(2, 3)
    response = await client.ask(asked(world, replica_epoch=9, last_offset_epoch=8), 2)
    assert said(response) == (0, -1, 9, True)
    assert b'"votedId":2' in world.machine.disk.read_file("/data/__cluster_metadata-0/quorum-state")
    other = await client.ask(asked(world, replica_epoch=9, replica_id=3, last_offset_epoch=8), 2)
    assert said(other) == (0, -1, 9, False)


@simulated()
async def test_of_whom_and_of_what(world: NodeWorld) -> None:
    client = await world.connect_controller()
    other = asked(world, replica_epoch=5)
    other.voter_id = 4
    assert said(await client.ask(other, 2))[0] == ErrorCode.INVALID_VOTER_KEY
    strange = asked(world)
    strange.cluster_id = "another"
    assert (await client.ask(strange, 2)).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    strange = asked(world)
    strange.topics[0].topic_name = "orders"
    assert (await client.ask(strange, 2)).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("epoch", [2, 2**31 - 2, 2**31 - 1])
@simulated()
async def test_who_is_no_voter_gets_no_vote_and_moves_no_epoch(world: NodeWorld, epoch: int) -> None:
    client = await world.connect_controller()
    response = await client.ask(asked(world, replica_epoch=epoch, last_offset_epoch=epoch), 2)
    assert said(response) == (0, 1, 1, False)
    await world.stop()
    await world.start()
    assert world.node.quorum.client.core.epoch == 2
    await world.create_topic("orders")


@simulated()
async def test_a_voter_does_not_lead_beyond_what_elections_can(world: NodeWorld) -> None:
    client = await world.connect_controller()
    world.note_voters(2, 3)
    far = await client.ask(asked(world, replica_epoch=1_002, last_offset_epoch=1), 2)
    assert said(far) == (0, 1, 1, False)
    near = await client.ask(asked(world, replica_epoch=1_001, last_offset_epoch=1), 2)
    assert said(near) == (0, -1, 1_001, True)
    again = await client.ask(asked(world, replica_epoch=1_900, last_offset_epoch=1), 2)
    assert said(again) == (0, -1, 1_001, False)  # such jumps would use up all numbers in days
    await world.pass_time(100_000)
    epoch = world.node.quorum.client.core.epoch
    later = await client.ask(asked(world, replica_epoch=epoch + 900, last_offset_epoch=1), 2)
    assert said(later)[2:] == (epoch + 900, True)
