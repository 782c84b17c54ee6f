"""EndTxn: once, again, and never the other way."""

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.producer_id_and_epoch import EPOCH_MAX
from headrace.testing.disk import Crash
from tests.server.beside_kafka.compare import assert_answers_as_kafka
from tests.server.node_world import NodeWorld, simulated
from tests.server.partition_states import two_replicas
from tests.server.txn_requests import add, end, init, markers
from tests.server.txn_world import begin, produce, state_of, values


@pytest.mark.parametrize(
    "section",
    [
        "Refused",
        "In its epoch, committed",
        "In its epoch, aborted",
        "With a bump, committed",
        "With a bump, aborted",
        "Nothing added",
    ],
)
def test_answers_as_kafka_does(section: str) -> None:
    assert_answers_as_kafka("end_txn", section)


@simulated()
async def test_a_decision_waits_for_the_replicas_and_the_markers_for_it(world: NodeWorld) -> None:
    await world.create_topic("t", 2)
    client = await world.connect()
    who = await begin(client, "x")
    await produce(client, who, "t", 0, b"one")
    home = world.partition("__transaction_state", world.node.parts.transactions.partition_of("x"))
    home.follow_metadata(two_replicas(1, 2))
    ending = client.ask(end(who), 5)
    await world.pass_time(1_000)
    assert not ending.done()
    assert await values(world, "t", committed=True) == []
    home.follow_metadata(two_replicas(1))
    assert (await ending).error_code == 0
    assert await values(world, "t", committed=True) == [b"one"]


@pytest.mark.parametrize("commit", [True, False])
@simulated()
async def test_a_decision_is_carried_out_after_a_crash(world: NodeWorld, commit: bool) -> None:
    await world.create_topic("t", 2)
    client = await world.connect()
    who = await begin(client, "x")
    await produce(client, who, "t", 0, b"one")
    world.partition("t", 0).follow_metadata(two_replicas(1, 2))  # the marker cannot be written safely
    assert (await client.ask(end(who, commit=commit), 5)).error_code == 0
    await world.pass_time(6_000)
    assert state_of(world, "x").startswith("Prepare")
    world.kill(Crash.KILL)
    await world.start()
    await world.until(lambda: state_of(world, "x") == f"Complete{'Commit' if commit else 'Abort'}")
    assert await values(world, "t", committed=True) == ([b"one"] if commit else [])
    again = await (await world.connect()).ask(end(who, commit=commit), 5)
    assert (again.error_code, again.producer_epoch) == (0, who[2] + 1)


@simulated()
async def test_when_epochs_are_used_up_the_producer_gets_another_id(world: NodeWorld) -> None:
    await world.create_topic("t", 2)
    client = await world.connect()
    name, producer_id, _ = await begin(client, "x")
    transactions = world.node.parts.transactions.shard_for("x").transactions
    last = EPOCH_MAX - 1
    transactions["x"] = transactions["x"].transition_to(transactions["x"].state, producer_epoch=last)
    who = (name, producer_id, last)
    await produce(client, who, "t", 0, b"one")
    reply = await client.ask(end(who), 5)
    assert (reply.error_code, reply.producer_epoch) == (0, 0)
    assert reply.producer_id != producer_id
    again = await client.ask(end(who), 5)
    assert (again.error_code, again.producer_id, again.producer_epoch) == (0, reply.producer_id, 0)
    assert (await client.ask(add(who, t=[0]), 3)).results_by_topic_v3_and_below[0].results_by_partition[
        0
    ].partition_error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await values(world, "t", committed=True) == [b"one"]
    await produce(client, (name, reply.producer_id, 0), "t", 0, b"two")


@simulated()
async def test_a_partition_that_is_deleted_holds_up_nothing(world: NodeWorld) -> None:
    await world.create_topic("t", 2)
    client = await world.connect()
    who = await begin(client, "x")
    await produce(client, who, "t", 0, b"one")
    await world.delete_topic("t")
    assert (await client.ask(end(who), 5)).error_code == 0
    assert state_of(world, "x") == "CompleteCommit"


@simulated()
async def test_a_late_marker_cannot_end_the_next_transaction(world: NodeWorld) -> None:
    """KIP-890: what an earlier epoch sends lands nowhere."""
    await world.create_topic("t", 2)
    client = await world.connect()
    who = await begin(client, "x")
    await produce(client, who, "t", 0, b"one")
    reply = await client.ask(end(who), 5)
    after = (who[0], reply.producer_id, reply.producer_epoch)
    await produce(client, after, "t", 0, b"two")
    late = await client.ask(markers(who[1], after[2], "t", 0, version=2), 2)
    assert late.markers[0].topics[0].partitions[0].error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await values(world, "t", committed=True) == [b"one"]
    assert (await client.ask(init("x"), 5)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
