"""Produce: what it answers and when: at once, when the replicas have it, when the disk has it, or never."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.server.context import RequestContext
from headrace.server.handlers import produce as handler
from headrace.testing.disk import Crash
from headrace.wire.schemas.fetch import FetchRequest
from headrace.wire.schemas.produce import ProduceRequest, ProduceResponse
from tests.server.beside_kafka.compare import assert_answers_as_kafka
from tests.server.beside_kafka.fetch import fetch
from tests.server.beside_kafka.produce import produce
from tests.server.beside_kafka.talk import batch
from tests.server.node_world import Client, NodeWorld, simulated
from tests.server.partition_states import two_replicas

BY_NAME, NEWEST = 12, 13
EVERY_MESSAGE = {"flush.messages": "1"}


def code(response: ProduceResponse, partition: int = 0) -> ErrorCode:
    return ErrorCode(response.responses[0].partition_responses[partition].error_code)


def test_answers_as_kafka_does() -> None:
    assert_answers_as_kafka("produce")


# --- acks=0 ---------------------------------------------------------------------------------------------


async def is_answered(client: Client) -> bool:
    """Whether the connection is alive: the next reply is to this request, and not to one before it."""
    try:
        await client.ask(FetchRequest(max_wait_ms=0), BY_NAME)
    except ConnectionError:
        return False
    return True


@simulated()
async def test_without_acknowledgement_it_is_appended_and_not_answered(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    for _ in range(3):
        client.tell(produce("t", batch(), acks=0), BY_NAME)
    assert await is_answered(client)
    assert world.log("t").log_end_offset == 3


@pytest.mark.parametrize("topic", ["none", "__consumer_offsets"])
@simulated()
async def test_without_acknowledgement_a_failure_ends_the_connection(world: NodeWorld, topic: str) -> None:
    client = await world.connect()
    client.tell(produce(topic, batch(), acks=0), BY_NAME)
    assert not await is_answered(client)


# --- acks=all -------------------------------------------------------------------------------------------


@simulated()
async def test_all_replicas_must_have_it(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    partition = world.partition("t")
    partition.follow_metadata(two_replicas(1, 2))
    assert code(await client.ask(produce("t", batch(), acks=1), BY_NAME)) is ErrorCode.NONE
    waiting = client.ask(produce("t", batch(), acks=-1), BY_NAME)
    await world.pass_time(1_000)
    assert not waiting.done()
    assert world.log("t").high_watermark == 0
    partition.follow_metadata(two_replicas(1))
    response = await waiting
    assert (code(response), response.responses[0].partition_responses[0].base_offset) == (ErrorCode.NONE, 1)
    assert world.log("t").high_watermark == 2


@simulated()
async def test_what_the_replicas_do_not_get_in_time_is_told_as_such(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    world.partition("t").follow_metadata(two_replicas(1, 2))
    asked_ms = world.now_ms()
    response = await client.ask(produce("t", batch(), acks=-1), BY_NAME)
    assert code(response) is ErrorCode.REQUEST_TIMED_OUT
    assert 5_000 <= world.now_ms() - asked_ms < 5_100


@simulated()
async def test_one_slow_partition_holds_up_the_reply_and_not_the_other_partition(world: NodeWorld) -> None:
    await world.create_topic("t", 2)
    client = await world.connect()
    world.partition("t", 1).follow_metadata(two_replicas(1, 2))
    response = await client.ask(produce("t", batch(), batch(), acks=-1), BY_NAME)
    assert [code(response, 0), code(response, 1)] == [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT]
    assert world.log("t", 0).high_watermark == 1


@simulated()
async def test_too_few_in_sync_are_told_before_anything_is_written(world: NodeWorld) -> None:
    await world.create_topic("t", configs={"min.insync.replicas": "2"})
    client = await world.connect()
    world.partition("t").follow_metadata(two_replicas(1))
    response = await client.ask(produce("t", batch(), acks=-1), BY_NAME)
    assert code(response) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.log("t").log_end_offset == 0
    assert code(await client.ask(produce("t", batch(), acks=1), BY_NAME)) is ErrorCode.NONE


@simulated()
async def test_who_waits_hears_of_a_new_leader_at_once(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    world.partition("t").follow_metadata(two_replicas(1, 2))
    waiting = client.ask(produce("t", batch(), acks=-1), BY_NAME)
    await world.pass_time(1_000)
    asked_ms = world.now_ms()
    world.partition("t").follow_metadata(two_replicas(1, 2, leader=2, epoch=1))
    assert code(await waiting) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert world.now_ms() - asked_ms < 100


@simulated()
async def test_who_waits_hears_that_the_topic_was_deleted(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    world.partition("t").follow_metadata(two_replicas(1, 2))
    waiting = client.ask(produce("t", batch(), acks=-1), BY_NAME)
    await world.pass_time(1_000)
    await world.delete_topic("t")
    assert code(await waiting) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@simulated()
async def test_a_node_that_stops_answers_who_waits(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    world.partition("t").follow_metadata(two_replicas(1, 2))
    waiting = client.ask(produce("t", batch(), acks=-1), BY_NAME)
    await world.pass_time(100)
    await world.stop()
    assert code(await waiting) is ErrorCode.NOT_LEADER_OR_FOLLOWER, "it hands over before it hangs up"


# --- leaders --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [9, 10, NEWEST])
@simulated()
async def test_who_asks_the_wrong_node_is_told_the_right_one(world: NodeWorld, version: int) -> None:
    topic_id = await world.create_topic("t")
    client = await world.connect()
    world.partition("t").follow_metadata(two_replicas(2, leader=2, epoch=1))
    response = await client.ask(produce("t", batch(), topic_id=topic_id), version)
    result = response.responses[0].partition_responses[0]
    assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    if version < 10:
        assert (result.current_leader, response.node_endpoints) == (None, [])
    else:
        assert (result.current_leader.leader_id, result.current_leader.leader_epoch) == (1, 0)
        assert [(each.node_id, each.host, each.port) for each in response.node_endpoints] == [
            (1, "node", 9092)
        ]


# --- disks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("acks", [1, -1])
@simulated()
async def test_what_was_acknowledged_with_flush_messages_1_survives_a_power_cut(
    world: NodeWorld, acks: int
) -> None:
    await world.create_topic("safe", configs=EVERY_MESSAGE)
    await world.create_topic("quick")
    client = await world.connect()
    for _ in range(20):
        assert code(await client.ask(produce("safe", batch(), acks=acks), BY_NAME)) is ErrorCode.NONE
        assert world.log("safe").recovery_point == world.log("safe").log_end_offset
        assert code(await client.ask(produce("quick", batch(), acks=acks), BY_NAME)) is ErrorCode.NONE
    assert world.log("quick").recovery_point == 0
    world.kill(Crash.POWER_CUT)
    await world.start()
    assert world.log("safe").log_end_offset == 20
    client = await world.connect()
    response = await client.ask(fetch("safe"), BY_NAME)
    assert len(response.responses[0].partitions[0].records) == 20 * len(batch())


@simulated()
async def test_records_that_come_during_a_sync_share_the_next_one(world: NodeWorld) -> None:
    await world.create_topic("safe", configs=EVERY_MESSAGE)
    client = await world.connect()
    begun = world.machine.disk.faults.operations
    waiting = [client.ask(produce("safe", batch()), BY_NAME) for _ in range(50)]
    for each in waiting:
        assert code(await each) is ErrorCode.NONE
    assert world.log("safe").recovery_point == 50
    # 50 writes, and not 50 syncs beside them.
    assert world.machine.disk.faults.operations - begun < 80


@simulated()
async def test_a_failed_sync_is_a_storage_error_to_all_who_wait_for_it(world: NodeWorld) -> None:
    await world.create_topic("safe", configs=EVERY_MESSAGE)
    client = await world.connect()
    assert code(await client.ask(produce("safe", batch()), BY_NAME)) is ErrorCode.NONE
    world.machine.disk.faults.concerns = lambda path: "safe-0" in path
    world.machine.disk.faults.sync_error_rate = 1.0
    waiting = [client.ask(produce("safe", batch()), BY_NAME) for _ in range(3)]
    asked_ms = world.now_ms()
    assert [code(await each) for each in waiting] == [ErrorCode.KAFKA_STORAGE_ERROR] * 3
    assert code(await client.ask(produce("safe", batch()), BY_NAME)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert world.now_ms() - asked_ms < 1_000
    world.machine.disk.faults.calm()
    world.kill()


@simulated()
async def test_a_failed_write_is_a_storage_error(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    world.machine.disk.faults.concerns = lambda path: "t-0" in path
    world.machine.disk.faults.write_error_rate = 1.0
    assert code(await client.ask(produce("t", batch()), BY_NAME)) is ErrorCode.KAFKA_STORAGE_ERROR
    world.machine.disk.faults.calm()
    world.kill()


@simulated()
async def test_a_sequence_that_was_written_is_answered_again_from_memory(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    request = ProduceRequest()
    for expected in (0, 0, 0):
        request = produce("t", batch(3, producer_id=5, producer_epoch=0, base_sequence=0), acks=-1)
        response = await client.ask(request, BY_NAME)
        assert response.responses[0].partition_responses[0].base_offset == expected
    assert world.log("t").log_end_offset == 3
    await world.stop()
    await world.start()
    client = await world.connect()
    response = await client.ask(request, BY_NAME)
    assert (code(response), world.log("t").log_end_offset) == (ErrorCode.NONE, 3)


@simulated()
async def test_bytes_that_are_no_batch_belong_to_no_transaction(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    assert code(await client.ask(produce("t", b"x" * 100), BY_NAME)) is ErrorCode.CORRUPT_MESSAGE


# --- what comes later -----------------------------------------------------------------------------------


def test_a_failure_after_verification_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply that never came would hold up every later one of its connection."""
    loop = asyncio.new_event_loop()
    passed: list[Callable[..., None]] = []
    parts = SimpleNamespace(
        loop=loop, txn_produce=SimpleNamespace(verify=lambda context, request, append: passed.append(append))
    )
    request = ProduceRequest(transactional_id="t")
    appended = loop.create_future()
    monkeypatch.setattr(handler, "_produce", lambda context, request, refused, in_frame: appended)
    answer = handler.handle(cast(RequestContext, SimpleNamespace(parts=parts)), request)
    assert isinstance(answer, asyncio.Future)
    passed[0](request, {})
    appended.set_exception(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        loop.run_until_complete(asyncio.wait_for(answer, 5))
    loop.close()
