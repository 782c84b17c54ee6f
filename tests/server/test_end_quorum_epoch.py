"""EndQuorumEpoch through its handler: whoever gives up is not waited for."""

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.raft.core import Role
from headrace.wire.schemas.end_quorum_epoch import (
    EndQuorumEpochRequest,
    ReplicaInfo,
    RequestPartitionData,
    RequestTopicData,
)
from tests.server.node_world import NodeWorld, simulated


def ended(world: NodeWorld, epoch: int, *candidates: int) -> EndQuorumEpochRequest:
    partition = RequestPartitionData(
        leader_id=2,
        leader_epoch=epoch,
        preferred_successors=list(candidates),
        preferred_candidates=[ReplicaInfo(each) for each in candidates],
    )
    return EndQuorumEpochRequest(world.node.cluster_id, [RequestTopicData("__cluster_metadata", [partition])])


@pytest.mark.parametrize("version", range(2))
@simulated()
async def test_the_end_of_an_older_epoch_is_no_news(world: NodeWorld, version: int) -> None:
    client = await world.connect_controller()
    response = await client.ask(ended(world, 0, 1), version)
    partition = response.topics[0].partitions[0]
    assert (partition.error_code, partition.leader_id) == (ErrorCode.FENCED_LEADER_EPOCH, 1)


@pytest.mark.parametrize("version", range(2))
@simulated()
async def test_the_first_successor_stands_at_once(world: NodeWorld, version: int) -> None:
    client = await world.connect_controller()
    world.note_voters(2, 3)
    response = await client.ask(ended(world, 4, 1), version)
    assert response.topics[0].partitions[0].error_code == 0
    before_ms = world.now_ms()
    core = world.node.quorum.client.core
    await world.until(lambda: core.role is Role.PROSPECTIVE)
    assert world.now_ms() - before_ms < 100
    assert core.epoch == 4
    world.kill()


@simulated()
async def test_a_leader_that_never_was_ends_nothing(world: NodeWorld) -> None:
    client = await world.connect_controller()
    response = await client.ask(ended(world, 2**31 - 1, 1), 1)
    assert (response.topics[0].partitions[0].leader_id, world.node.quorum.client.core.epoch) == (1, 1)
