"""InitProducerId: ids for idempotent producers, users of transactional ids, and two-phase commit."""

from pathlib import Path

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.producer_id_and_epoch import EPOCH_MAX
from headrace.wire.schemas.init_producer_id import InitProducerIdRequest
from tests.server.beside_kafka.compare import assert_answers_as_kafka
from tests.server.desk import Desk, at_desk
from tests.server.node_world import NodeWorld, simulated
from tests.server.txn_requests import add, end, init, prepare
from tests.server.txn_world import begin, produce, try_produce, values


@pytest.mark.parametrize("version", range(7))
def test_every_producer_gets_an_id_of_its_own(tmp_path: Path, version: int) -> None:
    async def script(desk: Desk) -> None:
        replies = [await desk.ask(InitProducerIdRequest(transactional_id=None), version) for _ in range(3)]
        assert [(r.error_code, r.producer_id, r.producer_epoch) for r in replies] == [
            (0, 0, 0),
            (0, 1, 0),
            (0, 2, 0),
        ]

    at_desk(tmp_path, script)


def test_a_producer_that_lost_its_way_gets_another(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        lost = InitProducerIdRequest(transactional_id=None, producer_id=5, producer_epoch=1)
        assert (await desk.ask(lost)).producer_id == 0
        half = InitProducerIdRequest(transactional_id=None, producer_id=5)
        assert (await desk.ask(half)).error_code == ErrorCode.INVALID_REQUEST

    at_desk(tmp_path, script)


def test_without_a_controller_the_producer_is_to_ask_again(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        desk.node.controller.stop()
        reply = await desk.ask(InitProducerIdRequest(transactional_id=None))
        assert (reply.error_code, reply.producer_epoch) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)

    at_desk(tmp_path, script)


@pytest.mark.parametrize(
    "section",
    [
        "Refused",
        "New users",
        "Users that go on",
        "An open transaction, whose end would be told in v4",
        "An open transaction, whose end would be told in v5",
    ],
)
def test_answers_as_kafka_does(section: str) -> None:
    assert_answers_as_kafka("init_producer_id", section)


@simulated(unstable_api_versions_enable="true")
async def test_two_phase_commit_must_be_allowed(world: NodeWorld) -> None:
    client = await world.connect()
    await begin(client, "x")
    reply = await client.ask(prepare("x"), 6)
    assert reply.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


@pytest.mark.parametrize("commit", [True, False])
@simulated(
    transaction_two_phase_commit_enable="true",
    transaction_abort_timed_out_transaction_cleanup_interval_ms="1000",
)
async def test_one_process_prepares_and_another_decides(world: NodeWorld, commit: bool) -> None:
    await world.create_topic("t")
    client = await world.connect()
    await begin(client, "x")
    first = await client.ask(prepare("x"), 6)
    who = ("x", first.producer_id, first.producer_epoch)
    await produce(client, who, "t", 0, b"one")
    await world.pass_time(3_600_000)  # no time-out
    await world.stop()
    await world.start()
    client = await world.connect()
    for turn in (1, 2):  # the second process dies too
        later = await client.ask(prepare("x", keep=True), 6)
        assert (later.error_code, later.ongoing_txn_producer_id, later.ongoing_txn_producer_epoch) == (
            0,
            *who[1:],
        )
        assert (later.producer_id, later.producer_epoch) == (who[1], who[2] + turn)
    now = ("x", later.producer_id, later.producer_epoch)
    assert (await client.ask(end(who), 5)).error_code == ErrorCode.PRODUCER_FENCED
    refused = await client.ask(add(now, t=[0]), 3)
    assert refused.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == (
        ErrorCode.INVALID_TXN_STATE
    )
    ended = await client.ask(end(now, commit=commit), 5)
    assert (ended.error_code, ended.producer_id, ended.producer_epoch) == (0, now[1], now[2] + 1)
    assert await values(world, "t", committed=True) == ([b"one"] if commit else [])
    assert (await client.ask(end(now, commit=commit), 5)).producer_epoch == now[2] + 1
    assert await try_produce(client, who, "t", 0, b"late", sequence=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    await produce(client, ("x", *(ended.producer_id, ended.producer_epoch)), "t", 0, b"two")


@simulated(transaction_two_phase_commit_enable="true")
async def test_a_prepared_transaction_of_an_exhausted_producer_is_decided_under_another_id(
    world: NodeWorld,
) -> None:
    """KIP-939: the marker ends the old id, the user goes on under the new one."""
    await world.create_topic("t")
    client = await world.connect()
    _, producer_id, _ = await begin(client, "x")
    transactions = world.node.parts.transactions.shard_for("x").transactions
    last = EPOCH_MAX - 1
    transactions["x"] = transactions["x"].transition_to(transactions["x"].state, producer_epoch=last)
    await produce(client, ("x", producer_id, last), "t", 0, b"one")
    later = await client.ask(prepare("x", keep=True), 6)
    assert (later.ongoing_txn_producer_id, later.ongoing_txn_producer_epoch) == (producer_id, last)
    assert later.producer_id != producer_id
    assert later.producer_epoch == 0
    ended = await client.ask(end(("x", later.producer_id, 0)), 5)
    assert (ended.error_code, ended.producer_id, ended.producer_epoch) == (0, later.producer_id, 1)
    assert await values(world, "t", committed=True) == [b"one"]
    again = await client.ask(end(("x", later.producer_id, 0)), 5)
    assert (again.error_code, again.producer_epoch) == (0, 1)


@simulated(transaction_two_phase_commit_enable="true")
async def test_a_user_that_keeps_nothing_aborts_what_was_prepared(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    await begin(client, "x")
    first = await client.ask(prepare("x"), 6)
    await produce(client, ("x", first.producer_id, first.producer_epoch), "t", 0, b"one")
    assert (await client.ask(prepare("x", keep=True), 6)).error_code == 0
    assert (await client.ask(init("x"), 5)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert (await client.ask(init("x"), 5)).error_code == 0
    assert await values(world, "t", committed=True) == []


@simulated()
async def test_who_goes_on_from_the_last_epoch_gets_another_id(world: NodeWorld) -> None:
    """Fencing takes the largest epoch, which is nobody's to write with."""
    await world.create_topic("t")
    client = await world.connect()
    _, producer_id, _ = await begin(client, "x")
    transactions = world.node.parts.transactions.shard_for("x").transactions
    who = ("x", producer_id, EPOCH_MAX - 1)
    transactions["x"] = transactions["x"].transition_to(transactions["x"].state, producer_epoch=who[2])
    await produce(client, who, "t", 0, b"one")
    again = init("x", expected=who[1:])
    assert (await client.ask(again, 5)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    reply = await client.ask(again, 5)
    assert (reply.error_code, reply.producer_epoch) == (0, 0)
    assert reply.producer_id != producer_id
    await produce(client, ("x", reply.producer_id, 0), "t", 0, b"two")
    assert (await client.ask(end(("x", reply.producer_id, 0)), 5)).error_code == 0
    assert await values(world, "t", committed=True) == [b"two"]
