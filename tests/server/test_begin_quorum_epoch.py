"""BeginQuorumEpoch through its handler: a leader is followed from then on, an old one is told better."""

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    LeaderEndpoint,
    RequestPartitionData,
    RequestTopicData,
)
from tests.server.node_world import NodeWorld, simulated


def began(world: NodeWorld, epoch: int, leader_id: int = 2) -> BeginQuorumEpochRequest:
    partition = RequestPartitionData(leader_id=leader_id, leader_epoch=epoch)
    topic = RequestTopicData("__cluster_metadata", [partition])
    endpoint = LeaderEndpoint("CONTROLLER", "node", 9999)
    return BeginQuorumEpochRequest(world.node.cluster_id, 1, [topic], [endpoint])


@pytest.mark.parametrize("version", range(2))
@simulated()
async def test_a_leader_of_an_older_epoch_is_told_of_the_newer(world: NodeWorld, version: int) -> None:
    client = await world.connect_controller()
    response = await client.ask(began(world, 0), version)
    partition = response.topics[0].partitions[0]
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (
        ErrorCode.FENCED_LEADER_EPOCH,
        1,
        1,
    )


@simulated()
async def test_a_newer_leader_is_followed_and_found_where_it_says(world: NodeWorld) -> None:
    client = await world.connect_controller()
    world.note_voters(2, 3)
    response = await client.ask(began(world, 7), 1)
    partition = response.topics[0].partitions[0]
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, 2, 7)
    assert [(node.node_id, node.port) for node in response.node_endpoints] == [(2, 9999)]
    assert not world.node.quorum.client.is_leader
    assert b'"leaderEpoch":7' in world.machine.disk.read_file("/data/__cluster_metadata-0/quorum-state")
    world.kill()


@simulated()
async def test_another_voter_was_meant(world: NodeWorld) -> None:
    client = await world.connect_controller()
    request = began(world, 7)
    request.voter_id = 3
    response = await client.ask(request, 1)
    assert response.topics[0].partitions[0].error_code == ErrorCode.INVALID_VOTER_KEY
    assert world.node.quorum.client.is_leader


@pytest.mark.parametrize(("epoch", "leader_id"), [(1, 2), (2**31 - 1, 2), (1, 9), (2, 9), (2, 1), (9, 1)])
@simulated()
async def test_a_leader_that_cannot_be_is_not_followed(world: NodeWorld, epoch: int, leader_id: int) -> None:
    client = await world.connect_controller()
    world.note_voters(2, 3)
    response = await client.ask(began(world, epoch, leader_id), 1)
    partition = response.topics[0].partitions[0]
    assert (partition.leader_id, partition.leader_epoch) == (1, 1)
    assert world.node.quorum.channel.address_of(leader_id) != ("node", 9999)
    assert world.node.quorum.client.is_leader
