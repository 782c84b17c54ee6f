"""Transactional writes: verified or added before the append, ended by markers, read as they ended."""

import asyncio

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.testing.disk import Crash
from headrace.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.server.beside_kafka.compare import assert_answers_as_kafka
from tests.server.node_world import NodeWorld, simulated
from tests.server.txn_requests import end, init
from tests.server.txn_world import begin, produce, state_of, try_produce, values


@pytest.mark.parametrize("section", ["Added by the client", "Added by the write", "Readers"])
def test_answers_as_kafka_does(section: str) -> None:
    assert_answers_as_kafka("transaction_walk", section)


@simulated(transaction_partition_verification_enable="false")
async def test_verification_can_be_turned_off_for_older_clients(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    who = await begin(client, "x")
    assert await try_produce(client, who, "t", 0, b"one", version=11) == 0


@pytest.mark.parametrize("crash", [Crash.KILL, None])
@simulated()
async def test_an_open_transaction_survives_a_restart(world: NodeWorld, crash: Crash | None) -> None:
    await world.create_topic("t")
    client = await world.connect()
    who = await begin(client, "x")
    await produce(client, who, "t", 0, b"one")
    await world.pass_time(6_000)
    if crash is None:
        await world.stop()
    else:
        world.kill(crash)
    await world.start()
    client = await world.connect()
    assert await values(world, "t", committed=True) == []
    await produce(client, who, "t", 0, b"two", sequence=1)
    assert (await client.ask(end(who), 5)).error_code == 0
    assert await values(world, "t", committed=True) == [b"one", b"two"]


@simulated(transaction_abort_timed_out_transaction_cleanup_interval_ms="1000")
async def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    who = await begin(client, "x", timeout_ms=5_000)
    await produce(client, who, "t", 0, b"one")
    await world.pass_time(4_000)
    assert state_of(world, "x") == "Ongoing"
    await world.pass_time(3_000)
    assert state_of(world, "x") == "CompleteAbort"
    assert await values(world, "t", committed=True) == []
    assert await try_produce(client, who, "t", 0, b"two", sequence=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert (await client.ask(end(who), 5)).error_code == ErrorCode.INVALID_TXN_STATE
    assert (await client.ask(init("x"), 5)).error_code == 0


@simulated(
    transactional_id_expiration_ms="10000", transaction_remove_expired_transaction_cleanup_interval_ms="1000"
)
async def test_an_id_that_nobody_uses_is_forgotten(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    who = await begin(client, "busy")
    await begin(client, "idle")
    await produce(client, who, "t", 0, b"one")
    transactions = world.node.parts.transactions
    await world.until(lambda: "idle" not in transactions.shard_for("idle").transactions)
    assert state_of(world, "busy") == "Ongoing"
    await world.stop()
    await world.start()
    transactions = world.node.parts.transactions
    assert "idle" not in transactions.shard_for("idle").transactions


@simulated()
async def test_a_reader_of_committed_records_wakes_when_they_are(world: NodeWorld) -> None:
    await world.create_topic("t")
    client, reader = await world.connect(), await world.connect()
    who = await begin(client, "x")
    await produce(client, who, "t", 0, b"one")
    request = FetchRequest(max_wait_ms=15_000, min_bytes=1, isolation_level=1)
    request.topics = [FetchTopic("t", partitions=[FetchPartition(0, partition_max_bytes=1 << 20)])]
    waiting = reader.ask(request, 11)
    await world.pass_time(100)
    assert not waiting.done()
    assert (await client.ask(end(who), 5)).error_code == 0
    reply = await asyncio.wait_for(waiting, 1)
    assert len(reply.responses[0].partitions[0].records) > 0
