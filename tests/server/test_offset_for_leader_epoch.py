"""OffsetForLeaderEpoch: the largest epoch not above the asked one, and its end."""

from itertools import pairwise

import pytest

from headrace.base.error_codes import ErrorCode
from tests.server.beside_kafka.compare import assert_answers_as_kafka
from tests.server.beside_kafka.offset_for_leader_epoch import end_of
from tests.server.beside_kafka.produce import produce
from tests.server.beside_kafka.talk import batch
from tests.server.node_world import NodeWorld, simulated
from tests.server.partition_states import two_replicas

NEWEST = 4


def test_answers_as_kafka_does() -> None:
    assert_answers_as_kafka("offset_for_leader_epoch")


async def with_epochs(world: NodeWorld) -> None:
    """Epochs 0, 3 and 6, of two, three and one records."""
    await world.create_topic("t")
    client = await world.connect()
    for epoch, count in ((0, 2), (3, 3), (6, 1)):
        world.partition("t").follow_metadata(two_replicas(1, epoch=epoch))
        await client.ask(produce("t", batch(count)), 12)


@pytest.mark.parametrize(
    ("asked", "epoch", "end"),
    [(0, 0, 2), (1, 0, 2), (2, 0, 2), (3, 3, 5), (5, 3, 5), (6, 6, 6), (7, -1, -1), (-1, -1, -1)],
)
@simulated()
async def test_the_end_of_an_epoch(world: NodeWorld, asked: int, epoch: int, end: int) -> None:
    await with_epochs(world)
    client = await world.connect()
    response = await client.ask(end_of("t", asked), NEWEST)
    found = response.topics[0].partitions[0]
    assert (found.error_code, found.leader_epoch, found.end_offset) == (0, epoch, end)


@simulated()
async def test_every_start_is_an_epoch_of_its_own_and_none_is_forgotten(world: NodeWorld) -> None:
    await world.create_topic("t")
    starts = []
    for clean in (False, True, False, True):
        client = await world.connect()
        starts.append((world.partition("t").leader_epoch, world.log("t").log_end_offset))
        await client.ask(produce("t", batch(2)), 12)
        if clean:
            await world.stop()
        else:
            world.kill()
        await world.start()
    assert world.log("t").leader_epoch_cache.entries()[:4] == starts
    client = await world.connect()
    for (epoch, start), (_, end) in pairwise([*starts, (99, 8)]):
        found = (await client.ask(end_of("t", epoch), NEWEST)).topics[0].partitions[0]
        assert (found.leader_epoch, start, found.end_offset) == (epoch, start, end)


@pytest.mark.parametrize(
    ("current", "expected"),
    [(5, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.NONE), (7, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
@simulated()
async def test_who_knows_another_leader_is_refused(
    world: NodeWorld, current: int, expected: ErrorCode
) -> None:
    await with_epochs(world)
    client = await world.connect()
    response = await client.ask(end_of("t", 0, current=current), NEWEST)
    assert response.topics[0].partitions[0].error_code == expected


@simulated()
async def test_only_the_leader_answers(world: NodeWorld) -> None:
    await world.create_topic("t")
    world.partition("t").follow_metadata(two_replicas(1, 2, leader=2, epoch=1))
    client = await world.connect()
    response = await client.ask(end_of("t", 0), NEWEST)
    assert response.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
