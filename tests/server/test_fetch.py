"""Fetch: when it answers, what readers may see, and what became of what they waited for."""

from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.fetch import FetchResponse
from tests.server.beside_kafka.compare import assert_answers_as_kafka
from tests.server.beside_kafka.fetch import fetch
from tests.server.beside_kafka.produce import produce
from tests.server.beside_kafka.talk import batch
from tests.server.node_world import Client, NodeWorld, simulated
from tests.server.partition_states import begin_transaction, end_transaction, two_replicas

BY_NAME, NEWEST = 12, 18
LONG_MS = 10_000
READ_COMMITTED = 1


def data_of(response: FetchResponse, partition: int = 0) -> Any:
    return response.responses[0].partitions[partition]


def code(response: FetchResponse, partition: int = 0) -> ErrorCode:
    return ErrorCode(data_of(response, partition).error_code)


async def put(client: Client, topic: str, *records: Any) -> None:
    response = await client.ask(produce(topic, *(records or [batch()])), BY_NAME)
    assert response.responses[0].partition_responses[0].error_code == 0


async def took_ms(world: NodeWorld, asked: Any) -> float:
    begun_ms = world.now_ms()
    await asked
    return world.now_ms() - begun_ms


def test_answers_as_kafka_does() -> None:
    assert_answers_as_kafka("fetch")


# --- waiting --------------------------------------------------------------------------------------------


@simulated()
async def test_an_append_ends_the_wait(world: NodeWorld) -> None:
    await world.create_topic("t")
    reader, writer = await world.connect(), await world.connect()
    waiting = reader.ask(fetch("t", wait_ms=LONG_MS), BY_NAME)
    await world.pass_time(3_000)
    assert not waiting.done()
    await put(writer, "t")
    assert await took_ms(world, waiting) < 10
    assert len(data_of(waiting.result()).records) == len(batch())


@simulated()
async def test_it_waits_for_as_many_bytes_as_were_asked_for(world: NodeWorld) -> None:
    await world.create_topic("t", 2)
    reader, writer = await world.connect(), await world.connect()
    size = len(batch())
    waiting = reader.ask(fetch("t", wait_ms=LONG_MS, min_bytes=3 * size, partitions=(0, 1)), BY_NAME)
    for records in ((batch(), batch()), (b"", batch())):
        await world.pass_time(1_000)
        assert not waiting.done()
        await writer.ask(produce("t", *records), BY_NAME)
    assert await took_ms(world, waiting) < 10
    response = waiting.result()
    assert [len(data_of(response, each).records) for each in (0, 1)] == [size, 2 * size]


@simulated()
async def test_a_wait_that_nothing_ends_takes_its_time_and_no_longer(world: NodeWorld) -> None:
    await world.create_topic("t")
    reader = await world.connect()
    took = await took_ms(world, reader.ask(fetch("t", wait_ms=LONG_MS), BY_NAME))
    assert LONG_MS <= took < LONG_MS + 10


@simulated()
async def test_what_is_not_replicated_does_not_end_the_wait(world: NodeWorld) -> None:
    await world.create_topic("t")
    reader, writer = await world.connect(), await world.connect()
    world.partition("t").follow_metadata(two_replicas(1, 2))
    waiting = reader.ask(fetch("t", wait_ms=LONG_MS), BY_NAME)
    await put(writer, "t")
    await world.pass_time(1_000)
    assert not waiting.done()
    # An offset that is in the log, but that no consumer may see yet, is no error.
    response = await writer.ask(fetch("t", 1), BY_NAME)
    assert (code(response), data_of(response).high_watermark) == (ErrorCode.NONE, 0)
    world.partition("t").follow_metadata(two_replicas(1))
    assert await took_ms(world, waiting) < 10
    assert len(data_of(waiting.result()).records) > 0


@simulated()
async def test_a_deleted_topic_ends_the_wait(world: NodeWorld) -> None:
    topic_id = await world.create_topic("t")
    reader = await world.connect()
    waiting = reader.ask(fetch("t", topic_id=topic_id, wait_ms=LONG_MS), NEWEST)
    await world.pass_time(100)
    await world.delete_topic("t")
    assert await took_ms(world, waiting) < 10
    assert code(waiting.result()) is ErrorCode.UNKNOWN_TOPIC_ID


@simulated()
async def test_a_lost_leadership_ends_the_wait(world: NodeWorld) -> None:
    topic_id = await world.create_topic("t")
    reader = await world.connect()
    ask = fetch("t", topic_id=topic_id, wait_ms=LONG_MS, current_leader_epoch=0)
    waiting = reader.ask(ask, NEWEST)
    await world.pass_time(100)
    world.partition("t").follow_metadata(two_replicas(1, 2, leader=2, epoch=1))
    assert await took_ms(world, waiting) < 10
    response = waiting.result()
    assert code(response) is ErrorCode.FENCED_LEADER_EPOCH
    assert data_of(response).current_leader.leader_id == 1  # as the cluster's image has it
    assert [each.host for each in response.node_endpoints] == ["node"]


@simulated()
async def test_a_node_that_stops_answers_who_waits(world: NodeWorld) -> None:
    await world.create_topic("t")
    reader = await world.connect()
    waiting = reader.ask(fetch("t", wait_ms=LONG_MS), BY_NAME)
    await world.pass_time(100)
    await world.stop()
    assert code(await waiting) is ErrorCode.NOT_LEADER_OR_FOLLOWER, "it hands over before it hangs up"


@simulated()
async def test_replies_leave_in_the_order_of_requests(world: NodeWorld) -> None:
    await world.create_topic("t")
    reader, writer = await world.connect(), await world.connect()
    waiting = reader.ask(fetch("t", wait_ms=LONG_MS), BY_NAME)
    behind = reader.ask(fetch("t"), BY_NAME)
    await world.pass_time(1_000)
    assert not behind.done()
    await put(writer, "t")
    await behind
    assert waiting.done()


# --- limits ---------------------------------------------------------------------------------------------


@simulated(fetch_max_bytes="1024")
async def test_the_brokers_own_limit_holds_whatever_is_asked_for(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    for _ in range(20):
        await put(client, "t", batch(size=200))
    asked = client.ask(fetch("t", min_bytes=100_000, wait_ms=LONG_MS), BY_NAME)
    assert await took_ms(world, asked) < 10  # nobody waits for more than may be sent
    assert len(data_of(asked.result()).records) == 1024


@simulated()
async def test_a_batch_above_every_limit_is_read_all_the_same(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    large = batch(size=100_000)
    await put(client, "t", large)
    response = await client.ask(fetch("t", partition_max_bytes=1, max_bytes=1), BY_NAME)
    assert len(data_of(response).records) == len(large)


@simulated()
async def test_records_are_read_across_segments_and_a_restart(world: NodeWorld) -> None:
    await world.create_topic("t", configs={"segment.bytes": "1048576"})
    client = await world.connect()
    for _ in range(5):
        await put(client, "t", batch(10, size=30_000))
    await world.stop()
    await world.start()
    client = await world.connect()
    offset, seen = 0, 0
    while offset < 50:
        response = await client.ask(fetch("t", offset, partition_max_bytes=10**7, max_bytes=10**7), BY_NAME)
        records = data_of(response).records
        assert len(records) > 0
        seen += len(records)
        offset += 10 * (len(records) // len(batch(10, size=30_000)))
    assert seen == 5 * len(batch(10, size=30_000))


# --- epochs ---------------------------------------------------------------------------------------------


@simulated()
async def test_who_knows_an_older_leader_is_fenced(world: NodeWorld) -> None:
    topic_id = await world.create_topic("t")
    client = await world.connect()
    world.partition("t").follow_metadata(two_replicas(1, epoch=4))
    for epoch, expected in (
        (3, ErrorCode.FENCED_LEADER_EPOCH),
        (4, ErrorCode.NONE),
        (5, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ):
        response = await client.ask(fetch("t", topic_id=topic_id, current_leader_epoch=epoch), NEWEST)
        assert code(response) is expected
        has_hint = data_of(response).current_leader is not None
        assert has_hint is (expected is ErrorCode.FENCED_LEADER_EPOCH)


@simulated()
async def test_a_reader_whose_history_is_another_is_told_where_they_part(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    await put(client, "t", batch(5))
    world.partition("t").follow_metadata(two_replicas(1, epoch=3))
    await put(client, "t", batch(5))
    world.partition("t").follow_metadata(two_replicas(1, epoch=5))
    for epoch, offset, expected in (
        (0, 5, None),
        (0, 6, (0, 5)),
        (2, 5, (0, 5)),
        (3, 10, None),
        (3, 12, (3, 10)),
        (4, 8, (3, 10)),
        (5, 10, None),
    ):
        response = await client.ask(fetch("t", offset, last_fetched_epoch=epoch), BY_NAME)
        diverging = data_of(response).diverging_epoch
        found = None if diverging is None else (diverging.epoch, diverging.end_offset)
        assert (epoch, offset, found) == (epoch, offset, expected)


# --- transactions ---------------------------------------------------------------------------------------


@simulated()
async def test_read_committed_stops_before_the_first_open_transaction(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    await put(client, "t")
    begin_transaction(world, "t", 7)
    await put(client, "t")
    waiting = client.ask(fetch("t", 1, isolation_level=READ_COMMITTED, wait_ms=LONG_MS), BY_NAME)
    other = await world.connect()
    response = await other.ask(fetch("t", 0, isolation_level=READ_COMMITTED), BY_NAME)
    data = data_of(response)
    assert (data.high_watermark, data.last_stable_offset, data.aborted_transactions) == (4, 1, [])
    assert len(data.records) == len(batch())
    response = await other.ask(fetch("t"), BY_NAME)
    assert data_of(response).aborted_transactions is None
    assert len(data_of(response).records) > len(batch())
    await world.pass_time(100)
    assert not waiting.done()
    end_transaction(world, "t", 7, commit=True)
    assert await took_ms(world, waiting) < 10
    assert data_of(waiting.result()).last_stable_offset == 5


@simulated()
async def test_read_committed_is_told_what_was_aborted(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    begin_transaction(world, "t", 7)
    begin_transaction(world, "t", 8)
    end_transaction(world, "t", 8, commit=False)
    end_transaction(world, "t", 7, commit=True)
    begin_transaction(world, "t", 9)
    end_transaction(world, "t", 9, commit=False)
    response = await client.ask(fetch("t", isolation_level=READ_COMMITTED), BY_NAME)
    aborted = data_of(response).aborted_transactions
    assert [(each.producer_id, each.first_offset) for each in aborted] == [(8, 2), (9, 6)]
    response = await client.ask(fetch("t", 6, isolation_level=READ_COMMITTED), BY_NAME)
    assert [each.producer_id for each in data_of(response).aborted_transactions] == [9]


# --- disks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("waits", [False, True])
@simulated(log_dirs="/data,/more")
async def test_a_folder_that_fails_takes_its_partitions_with_it(world: NodeWorld, waits: bool) -> None:
    await world.create_topic("t", 2)
    client = await world.connect()
    await put(client, "t", batch(), batch())
    waiting = client.ask(fetch("t", 1, partitions=(0, 1), wait_ms=LONG_MS), BY_NAME) if waits else None
    await world.pass_time(100)
    doomed = next(each for each in (0, 1) if world.log("t", each).folder.startswith("/more"))
    world.handle_log_dir_failure("/more")
    if waiting is not None:
        assert await took_ms(world, waiting) < 1_000
        assert code(waiting.result(), doomed) is ErrorCode.KAFKA_STORAGE_ERROR
    response = await client.ask(fetch("t", partitions=(0, 1)), BY_NAME)
    assert code(response, doomed) is ErrorCode.KAFKA_STORAGE_ERROR
    assert (code(response, 1 - doomed), len(data_of(response, 1 - doomed).records)) == (0, len(batch()))
