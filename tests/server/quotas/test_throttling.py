"""Clients above a quota are told so and wait, on a whole node in virtual time; others notice nothing."""

import asyncio
from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.server.delayed_fetch import DelayedFetch
from headrace.wire.schemas.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headrace.wire.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.schemas.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.schemas.metadata import MetadataRequest
from tests.server.beside_kafka.client_quotas import (
    CHANGES,
    CLIENT,
    CONNECTIONS,
    FETCHED,
    IP,
    PRODUCED,
    TIME,
    USER,
)
from tests.server.beside_kafka.produce import produce
from tests.server.beside_kafka.talk import batch
from tests.server.node_world import Client, NodeWorld, simulated
from tests.server.quotas.limits import limit

RATE = 20_000.0
ALL_IN_LANE = 12
THROUGH_HANDLER = 13


def request(topic_id: bytes, size: int = 10_000, acks: int = 1) -> Any:
    return produce("t", batch(1, size=size), topic_id=topic_id, acks=acks)


async def produced_for(world: NodeWorld, client: Client, sent: Any, version: int, *, ms: int) -> list[int]:
    """Produce as fast as replies come, for so long; the throttle times that were told."""
    told, until = [], world.now_ms() + ms
    while world.now_ms() < until:
        reply = await client.ask(sent, version)
        assert reply.responses[0].partition_responses[0].error_code == 0
        told.append(reply.throttle_time_ms)
        await world.pass_time(1)
    return told


@pytest.mark.parametrize("version", range(3, 14))
@simulated()
async def test_a_producer_is_held_to_its_rate(world: NodeWorld, version: int) -> None:
    topic_id = await world.create_topic("t")
    await limit(world, {CLIENT: "bound"}, {PRODUCED: RATE})
    bound, free = await world.connect("bound"), await world.connect("free")
    told = await produced_for(world, bound, request(topic_id), version, ms=60_000)
    assert len(told) * 10_000 / 60 == pytest.approx(RATE, rel=0.15)
    assert max(told) > 100
    assert set(await produced_for(world, free, request(topic_id), version, ms=50)) == {0}


@simulated()
async def test_a_quota_that_is_removed_binds_nobody(world: NodeWorld) -> None:
    topic_id = await world.create_topic("t")
    quotas = world.node.parts.quotas
    assert not quotas.limits_produce
    assert quotas.new_fetch is DelayedFetch
    await limit(world, {USER: None}, {PRODUCED: 1.0, FETCHED: 1.0, TIME: 0.001})
    assert quotas.limits_produce
    assert quotas.new_fetch is not DelayedFetch
    await limit(world, {USER: None}, {PRODUCED: None, FETCHED: None, TIME: None})
    assert not quotas.limits_produce
    assert quotas.new_fetch is DelayedFetch
    client = await world.connect("c")
    assert set(await produced_for(world, client, request(topic_id), 9, ms=20)) == {0}


@simulated()
async def test_quotas_hold_after_a_restart(world: NodeWorld) -> None:
    topic_id = await world.create_topic("t")
    await limit(world, {CLIENT: None}, {PRODUCED: RATE})
    await world.stop()
    await world.start()
    client = await world.connect("anybody")
    reply = await client.ask(request(topic_id, size=400_000), 9)
    assert reply.throttle_time_ms > 5000


@pytest.mark.parametrize("acks", [1, -1, 0])
@pytest.mark.parametrize("version", [ALL_IN_LANE, THROUGH_HANDLER])
@simulated()
async def test_a_producer_that_does_not_wait_is_not_read(world: NodeWorld, version: int, acks: int) -> None:
    """What comes in one read is cut off where it is too much, and goes on when the time is over."""
    topic_id = await world.create_topic("t")
    await limit(world, {CLIENT: "bound"}, {PRODUCED: RATE})
    client = await world.connect("bound")
    sent = request(topic_id, size=100_000, acks=acks)
    if acks:
        asked = [client.ask(sent, version, timeout_ms=600_000) for _ in range(30)]
    else:
        for _ in range(30):
            client.tell(sent, version)
    await world.pass_time(3000)
    assert 2 <= world.log("t").log_end_offset <= 8
    await world.until(lambda: world.log("t").log_end_offset == 30, timeout_s=600)
    assert world.now_ms() > 120_000
    if acks:
        replies = await asyncio.gather(*asked)
        assert sum(reply.throttle_time_ms > 0 for reply in replies) > 5


@simulated()
async def test_clients_of_a_user_share_its_quota(world: NodeWorld) -> None:
    topic_id = await world.create_topic("t")
    await limit(world, {USER: "ANONYMOUS"}, {PRODUCED: RATE})
    one, other = await world.connect("one"), await world.connect("other")
    for client in (one, other):
        await client.ask(request(topic_id, size=100_000), 9)
    assert (await one.ask(request(topic_id, size=100_000), 9)).throttle_time_ms > 0
    assert (await other.ask(request(topic_id, size=10), 9)).throttle_time_ms > 0


def fetch(topic_id: bytes, session: tuple[int, int] = (0, -1), offset: int = 0) -> FetchRequest:
    wanted = [FetchTopic(topic_id=topic_id, partitions=[FetchPartition(0, fetch_offset=offset)])]
    for each in wanted[0].partitions:
        each.partition_max_bytes = 1 << 20
    return FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=session[0],
        session_epoch=session[1],
        topics=wanted if session[1] <= 0 else [],
    )


@simulated()
async def test_a_fetch_above_the_quota_is_empty_and_can_be_asked_again(world: NodeWorld) -> None:
    topic_id = await world.create_topic("t")
    writer = await world.connect("writer")
    await writer.ask(request(topic_id, size=150_000), 9)
    await limit(world, {CLIENT: "bound"}, {FETCHED: RATE})
    client = await world.connect("bound")
    first = await client.ask(fetch(topic_id, (0, 0)), 13)
    assert first.throttle_time_ms == 0
    assert first.session_id > 0
    # The session was told of these records; from the same offset it is asked for again.
    moved = fetch(topic_id, (first.session_id, 1))
    moved.topics = fetch(topic_id).topics
    begun_ms = world.now_ms()
    second = await client.ask(moved, 13)
    assert second.throttle_time_ms > 0
    assert (second.error_code, second.session_id, second.responses) == (0, first.session_id, [])
    assert world.now_ms() - begun_ms < 500
    third = await client.ask(fetch(topic_id, (first.session_id, 2)), 13, timeout_ms=600_000)
    assert world.now_ms() - begun_ms >= second.throttle_time_ms
    got = third.responses[0].partitions[0].records if third.responses else b""
    assert third.throttle_time_ms > 0 or len(got) >= 150_000
    free = await world.connect("free")
    assert (await free.ask(fetch(topic_id), 13)).responses[0].partitions[0].records


@simulated()
async def test_a_consumer_is_held_to_its_rate(world: NodeWorld) -> None:
    topic_id = await world.create_topic("t")
    writer = await world.connect("writer")
    for _ in range(300):
        await writer.ask(request(topic_id, size=10_000), 9)
    await limit(world, {USER: None, CLIENT: "bound"}, {FETCHED: RATE})
    client = await world.connect("bound")
    offset, until = 0, world.now_ms() + 60_000
    while world.now_ms() < until:
        asked = fetch(topic_id, offset=offset)
        asked.topics[0].partitions[0].partition_max_bytes = 30_000
        reply = await client.ask(asked, 13, timeout_ms=600_000)
        if reply.responses:
            offset += len(reply.responses[0].partitions[0].records) // 10_000
        await world.pass_time(1)
    assert offset * 10_000 / 60 == pytest.approx(RATE, rel=0.2)


@simulated()
async def test_a_quota_below_one_batch_still_lets_it_through(world: NodeWorld) -> None:
    topic_id = await world.create_topic("t")
    writer = await world.connect("writer")
    await writer.ask(request(topic_id, size=100_000), 9)
    await limit(world, {CLIENT: "bound"}, {FETCHED: 11_000.0})
    client = await world.connect("bound")
    reply = await client.ask(fetch(topic_id), 13)
    assert reply.throttle_time_ms == 0
    assert len(reply.responses[0].partitions[0].records) > 100_000


def topics(*names: str, partitions: int = 10) -> CreateTopicsRequest:
    made = [CreatableTopic(name, partitions, 1) for name in names]
    return CreateTopicsRequest(made, timeout_ms=30_000)


@simulated()
async def test_changes_of_partitions_are_refused_in_new_versions(world: NodeWorld) -> None:
    await limit(world, {CLIENT: "bound"}, {CHANGES: 1.0})
    client = await world.connect("bound")
    reply = await client.ask(topics("a", "b", "c"), 7)
    assert [each.error_code for each in reply.topics] == [0, 0, ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    assert reply.topics[2].error_message == "The throttling quota has been exceeded."
    assert reply.throttle_time_ms == 9000
    begun_ms = world.now_ms()
    more = CreatePartitionsRequest([CreatePartitionsTopic("a", 12, None)], timeout_ms=30_000)
    assert (await client.ask(more, 3)).results[0].error_code == 0
    assert world.now_ms() - begun_ms >= 8999
    gone = DeleteTopicsRequest([DeleteTopicState("a")], timeout_ms=30_000)
    reply = await client.ask(gone, 6)
    assert reply.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert 1000 <= reply.throttle_time_ms <= 2000
    free = await world.connect("free")
    assert (await free.ask(gone, 6)).responses[0].error_code == 0


@simulated()
async def test_old_clients_are_let_and_told_to_wait(world: NodeWorld) -> None:
    await limit(world, {USER: "ANONYMOUS"}, {CHANGES: 1.0})
    client = await world.connect("old")
    reply = await client.ask(topics("a", "b"), 5)
    assert [each.error_code for each in reply.topics] == [0, 0]
    assert reply.throttle_time_ms == 9000
    begun_ms = world.now_ms()
    await client.ask(MetadataRequest(topics=[]), 9)
    assert world.now_ms() - begun_ms >= 8999


@simulated()
async def test_connections_of_an_address_come_at_its_rate(world: NodeWorld) -> None:
    await limit(world, {IP: None}, {CONNECTIONS: 1.0})
    opened = []
    for _ in range(30):
        client = await world.connect("c")
        opened.append(client)
    await world.pass_time(1500)
    await world.until(lambda: any(not client.is_open for client in opened))
    alive = [client for client in opened if client.is_open]
    assert 8 <= len(alive) <= 12
    await alive[0].ask(MetadataRequest(topics=[]), 9)
    await world.pass_time(12_000)
    late = await world.connect("late")
    await late.ask(MetadataRequest(topics=[]), 9)
