"""WriteTxnMarkers: which markers a partition takes, and when they are answered."""

import pytest

from tests.server.beside_kafka.compare import assert_answers_as_kafka
from tests.server.node_world import NodeWorld, simulated
from tests.server.partition_states import two_replicas
from tests.server.txn_requests import markers
from tests.server.txn_world import begin, produce, values


@pytest.mark.parametrize("section", ["Refused", "By the rules of version 0", "By the rules of version 2"])
def test_answers_as_kafka_does(section: str) -> None:
    assert_answers_as_kafka("write_txn_markers", section)


@simulated()
async def test_it_is_answered_when_all_replicas_have_it(world: NodeWorld) -> None:
    await world.create_topic("t", 2)
    client = await world.connect()
    who = await begin(client, "x")
    await produce(client, who, "t", 0, b"one")
    partition = world.partition("t", 0)
    partition.follow_metadata(two_replicas(1, 2))
    asked = client.ask(markers(who[1], who[2] + 1, "t", 0, 1, commit=False), 2)
    await world.pass_time(1_000)
    assert not asked.done()
    assert await values(world, "t", committed=True) == []
    partition.follow_metadata(two_replicas(1))
    results = (await asked).markers[0].topics[0].partitions
    assert [(each.partition_index, each.error_code) for each in results] == [(0, 0), (1, 0)]
    assert await values(world, "t", committed=False) == [b"one"]
    assert await values(world, "t", committed=True) == []


@simulated()
async def test_one_that_was_written_before_is_not_answered_before_all_replicas_have_it(
    world: NodeWorld,
) -> None:
    """Its coordinator would forget the transaction, which is open again if this leader ends now."""
    await world.create_topic("t", 1)
    client, again = await world.connect(), await world.connect()
    who = await begin(client, "x")
    await produce(client, who, "t", 0, b"one")
    partition = world.partition("t", 0)
    partition.follow_metadata(two_replicas(1, 2))
    request = markers(who[1], who[2] + 1, "t", 0, commit=False, version=2)
    asked = client.ask(request, 2)
    repeated = again.ask(request, 2)
    await world.pass_time(1_000)
    assert (asked.done(), repeated.done()) == (False, False)
    partition.follow_metadata(two_replicas(1))
    for answer in (await asked, await repeated):
        assert answer.markers[0].topics[0].partitions[0].error_code == 0
    assert partition.local_log().log_end_offset == 2  # the record and one marker
