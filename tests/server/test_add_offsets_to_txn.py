"""AddOffsetsToTxn: the partition where a group lives joins a transaction."""

from headrace.base.ids import TopicPartition
from tests.server.beside_kafka.compare import assert_answers_as_kafka
from tests.server.beside_kafka.find_coordinator import ask_for
from tests.server.node_world import NodeWorld, simulated
from tests.server.txn_requests import add_offsets
from tests.server.txn_world import begin


def test_answers_as_kafka_does() -> None:
    assert_answers_as_kafka("add_partitions_to_txn", "Offsets")


@simulated()
async def test_it_is_the_partition_of_the_group(world: NodeWorld) -> None:
    client = await world.connect()
    await client.ask(ask_for(6, "g"), 6)
    who = await begin(client, "t")
    assert (await client.ask(add_offsets(who, "g"), 4)).error_code == 0
    parts = world.node.parts
    home = TopicPartition("__consumer_offsets", parts.groups.partition_of("g"))
    assert parts.transactions.shard_for("t").transactions["t"].partitions == {home}
