"""ListOffsets: what a reader may not see does not exist for it, and epochs fence."""

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.list_offsets import ListOffsetsPartitionResponse, ListOffsetsResponse
from tests.server.beside_kafka.compare import assert_answers_as_kafka
from tests.server.beside_kafka.list_offsets import find
from tests.server.beside_kafka.produce import produce
from tests.server.beside_kafka.talk import RECORD_MS, batch
from tests.server.node_world import NodeWorld, simulated
from tests.server.partition_states import begin_transaction, end_transaction, two_replicas

NEWEST = 11
LATEST, EARLIEST, LARGEST = -1, -2, -3
READ_COMMITTED = 1


def result_of(response: ListOffsetsResponse) -> ListOffsetsPartitionResponse:
    return response.topics[0].partitions[0]


def test_answers_as_kafka_does() -> None:
    assert_answers_as_kafka("list_offsets")


@simulated()
async def test_what_is_not_replicated_does_not_exist_for_consumers(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    await client.ask(produce("t", batch(2)), 12)
    world.partition("t").follow_metadata(two_replicas(1, 2))
    await client.ask(produce("t", batch(2, at_ms=RECORD_MS + 1000)), 12)
    for timestamp, offset in (
        (LATEST, 2),
        (EARLIEST, 0),
        (RECORD_MS + 1, 1),
        (RECORD_MS + 2, -1),
        (LARGEST, -1),
    ):
        result = result_of(await client.ask(find("t", timestamp), NEWEST))
        assert (timestamp, result.error_code, result.offset) == (timestamp, 0, offset)
    debugging = result_of(await client.ask(find("t", LATEST, replica_id=-2), NEWEST))
    assert debugging.offset == 4


@simulated()
async def test_read_committed_ends_at_the_first_open_transaction(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    await client.ask(produce("t", batch(1, at_ms=RECORD_MS - 10)), 12)
    begin_transaction(world, "t", 7)
    for timestamp, uncommitted, committed in ((LATEST, 3, 1), (RECORD_MS, 1, -1), (RECORD_MS - 10, 0, 0)):
        seen = result_of(await client.ask(find("t", timestamp), NEWEST)).offset
        request = find("t", timestamp, isolation_level=READ_COMMITTED)
        assert (seen, result_of(await client.ask(request, NEWEST)).offset) == (uncommitted, committed)
    end_transaction(world, "t", 7, commit=True)
    request = find("t", LATEST, isolation_level=READ_COMMITTED)
    assert result_of(await client.ask(request, NEWEST)).offset == 4


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (-1, ErrorCode.NONE),
        (2, ErrorCode.FENCED_LEADER_EPOCH),
        (3, ErrorCode.NONE),
        (4, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
@simulated()
async def test_epochs_fence(world: NodeWorld, epoch: int, expected: ErrorCode) -> None:
    await world.create_topic("t")
    world.partition("t").follow_metadata(two_replicas(1, epoch=3))
    client = await world.connect()
    assert result_of(await client.ask(find("t", LATEST, epoch=epoch), NEWEST)).error_code == expected


@simulated()
async def test_an_offset_comes_with_the_epoch_that_wrote_it(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    await client.ask(produce("t", batch(2)), 12)
    world.partition("t").follow_metadata(two_replicas(1, epoch=3))
    await client.ask(produce("t", batch(2, at_ms=RECORD_MS + 1000)), 12)
    for timestamp, offset, epoch in (
        (EARLIEST, 0, 0),
        (RECORD_MS + 1, 1, 0),
        (RECORD_MS + 2, 2, 3),
        (LATEST, 4, 3),
    ):
        result = result_of(await client.ask(find("t", timestamp), NEWEST))
        assert (result.offset, result.leader_epoch) == (offset, epoch)
    assert result_of(await client.ask(find("t", LATEST), 3)).leader_epoch == -1


@simulated()
async def test_another_node_leads(world: NodeWorld) -> None:
    await world.create_topic("t")
    world.partition("t").follow_metadata(two_replicas(1, 2, leader=2, epoch=3))
    client = await world.connect()
    result = result_of(await client.ask(find("t", LATEST), NEWEST))
    assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@simulated()
async def test_times_are_found_after_a_restart_and_across_segments(world: NodeWorld) -> None:
    await world.create_topic("t", configs={"segment.bytes": "1048576", "index.interval.bytes": "100"})
    client = await world.connect()
    for number in range(40):
        await client.ask(produce("t", batch(2, size=40_000, at_ms=RECORD_MS + number * 10)), 12)
    await world.stop()
    await world.start()
    client = await world.connect()
    for number in range(40):
        result = result_of(await client.ask(find("t", RECORD_MS + number * 10 - 5), NEWEST))
        assert (result.offset, result.timestamp) == (2 * number, RECORD_MS + number * 10)
