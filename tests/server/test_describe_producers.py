"""DescribeProducers: open transactions, and who is told."""

from headrace.wire.schemas.describe_producers import PartitionResponse
from tests.server.beside_kafka.compare import assert_answers_as_kafka
from tests.server.beside_kafka.describe_producers import describe
from tests.server.beside_kafka.talk import RECORD_MS
from tests.server.node_world import Client, NodeWorld, simulated
from tests.server.partition_states import begin_transaction, end_transaction, two_replicas


def test_answers_as_kafka_does() -> None:
    assert_answers_as_kafka("describe_producers")


async def ask(client: Client) -> PartitionResponse:
    response = await client.ask(describe("t", 0), 0)
    found: PartitionResponse = response.topics[0].partitions[0]
    return found


@simulated()
async def test_an_open_transaction_shows_where_it_began(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    begin_transaction(world, "t", 7)
    begin_transaction(world, "t", 8)
    begin_transaction(world, "t", 7, sequence=2)
    producers = {each.producer_id: each for each in (await ask(client)).active_producers}
    assert {each: found.current_txn_start_offset for each, found in producers.items()} == {7: 0, 8: 2}
    assert (producers[7].last_sequence, producers[7].last_timestamp) == (3, RECORD_MS + 1)
    end_transaction(world, "t", 7, commit=True)
    producers = {each.producer_id: each for each in (await ask(client)).active_producers}
    assert {each: found.current_txn_start_offset for each, found in producers.items()} == {7: -1, 8: 2}
    assert producers[7].coordinator_epoch == 0


@simulated(producer_id_expiration_ms="60000")
async def test_producers_are_remembered_over_a_restart_and_forgotten_in_time(world: NodeWorld) -> None:
    await world.create_topic("t")
    begin_transaction(world, "t", 7)
    end_transaction(world, "t", 7, commit=True)
    await world.stop()
    await world.start()
    client = await world.connect()
    assert [each.producer_id for each in (await ask(client)).active_producers] == [7]
    await world.pass_time(60_000 + 700_000)  # producer.id.expiration.ms, and the next look
    client = await world.connect()
    assert (await ask(client)).active_producers == []


@simulated()
async def test_a_follower_answers_too(world: NodeWorld) -> None:
    await world.create_topic("t")
    begin_transaction(world, "t", 7)
    world.partition("t").follow_metadata(two_replicas(1, 2, leader=2, epoch=1))
    client = await world.connect()
    found = await ask(client)
    assert (found.error_code, [each.producer_id for each in found.active_producers]) == (0, [7])
