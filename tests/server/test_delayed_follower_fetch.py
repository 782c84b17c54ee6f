"""A follower's Fetch: to the end of the log, noting how far it is; and what waits for that."""

from typing import Any

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from tests.server.beside_kafka.delete_records import delete
from tests.server.beside_kafka.list_offsets import find
from tests.server.beside_kafka.produce import produce
from tests.server.beside_kafka.talk import batch
from tests.server.node_world import Client, NodeWorld, simulated
from tests.server.partition_states import two_replicas

NEWEST = 18
FOLLOWER = 2
LATEST, EARLIEST = -1, -2


def follow(topic_id: bytes, offset: int = 0, **more: Any) -> FetchRequest:
    """What the follower asks for."""
    wish = FetchPartition(
        0,
        current_leader_epoch=more.pop("leader_epoch", 0),
        fetch_offset=offset,
        last_fetched_epoch=more.pop("last_epoch", -1),
        log_start_offset=more.pop("log_start", 0),
        partition_max_bytes=1 << 20,
    )
    topics = [FetchTopic(topic_id=topic_id, partitions=[wish])] if more.pop("named", True) else []
    given: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "session_epoch": -1} | more
    return FetchRequest(replica_state=ReplicaState(FOLLOWER, 7), topics=topics, **given)


def data_of(response: Any) -> Any:
    return response.responses[0].partitions[0]


async def with_follower(world: NodeWorld, records: int = 3) -> tuple[bytes, Client]:
    """A topic whose partition has a second replica in sync, and records that it does not have."""
    topic_id = await world.create_topic("t")
    world.partition("t").follow_metadata(two_replicas(1, FOLLOWER))
    client = await world.connect()
    await client.ask(produce("t", batch(records), acks=1), 12)
    return topic_id, client


@simulated()
async def test_it_reads_what_consumers_may_not_see_yet_and_so_lets_them(world: NodeWorld) -> None:
    topic_id, client = await with_follower(world)
    data = data_of(await client.ask(follow(topic_id), NEWEST))
    assert (data.error_code, data.high_watermark, len(data.records)) == (0, 0, len(batch(3)))
    data = data_of(await client.ask(follow(topic_id, 3, last_epoch=0), NEWEST))
    assert (data.high_watermark, len(data.records)) == (3, 0)
    assert world.log("t").high_watermark == 3


@simulated()
async def test_acks_all_waits_for_it(world: NodeWorld) -> None:
    topic_id, client = await with_follower(world)
    writer = await world.connect()
    waiting = writer.ask(produce("t", batch(2), acks=-1), 12)
    await world.pass_time(1_000)
    assert not waiting.done()
    await client.ask(follow(topic_id, 5), NEWEST)
    response = await waiting
    assert response.responses[0].partition_responses[0].error_code == 0


@simulated()
async def test_an_append_ends_its_wait(world: NodeWorld) -> None:
    topic_id, client = await with_follower(world)
    waiting = client.ask(follow(topic_id, 3, max_wait_ms=10_000), NEWEST)
    await world.pass_time(1_000)
    assert not waiting.done()
    writer = await world.connect()
    await writer.ask(produce("t", batch(2), acks=1), 12)
    assert len(data_of(await waiting).records) == len(batch(2))


@simulated()
async def test_its_next_request_does_not_wait_behind_a_long_poll(world: NodeWorld) -> None:
    topic_id, client = await with_follower(world)
    opened = await client.ask(follow(topic_id, 3, session_epoch=0), NEWEST)
    session = {"session_id": opened.session_id, "max_wait_ms": 10_000}
    begun_ms = world.now_ms()
    first = client.ask(follow(topic_id, named=False, session_epoch=1, **session), NEWEST)
    await world.pass_time(100)
    second = client.ask(follow(topic_id, named=False, session_epoch=2, **session), NEWEST)
    assert (await first).error_code == 0
    assert world.now_ms() - begun_ms < 200
    writer = await world.connect()
    await writer.ask(produce("t", batch(1), acks=1), 12)
    assert len(data_of(await second).records) > 0


@simulated()
async def test_a_log_that_parts_from_the_leaders_is_told_where(world: NodeWorld) -> None:
    topic_id, client = await with_follower(world)
    world.partition("t").follow_metadata(two_replicas(1, FOLLOWER, epoch=2))
    data = data_of(await client.ask(follow(topic_id, 9, last_epoch=1, leader_epoch=2), NEWEST))
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 3)
    leader_state = world.partition("t").leader_state
    assert leader_state is not None
    assert leader_state.followers[FOLLOWER].log_end == -1  # that tells nothing of how far it is


@simulated()
async def test_who_is_refused(world: NodeWorld) -> None:
    topic_id, client = await with_follower(world)
    for request, code in (
        (follow(topic_id, leader_epoch=5), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (follow(topic_id, 99), ErrorCode.OFFSET_OUT_OF_RANGE),
        (follow(bytes(15) + b"x"), ErrorCode.UNKNOWN_TOPIC_ID),
    ):
        assert data_of(await client.ask(request, NEWEST)).error_code == code
    stranger = follow(topic_id)
    stranger.replica_state = ReplicaState(9, 1)
    assert data_of(await client.ask(stranger, NEWEST)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


@simulated()
async def test_a_new_leader_does_not_say_where_the_log_ends_before_it_knows(world: NodeWorld) -> None:
    topic_id, client = await with_follower(world)
    world.partition("t").follow_metadata(two_replicas(1, FOLLOWER, epoch=1))
    for place, version, code in (
        (LATEST, 11, ErrorCode.OFFSET_NOT_AVAILABLE),
        (LATEST, 4, ErrorCode.LEADER_NOT_AVAILABLE),
        (EARLIEST, 11, ErrorCode.NONE),
    ):
        response = await client.ask(find("t", place), version)
        assert response.topics[0].partitions[0].error_code == code
    await client.ask(follow(topic_id, 3, leader_epoch=1), NEWEST)
    response = await client.ask(find("t", LATEST), 11)
    assert response.topics[0].partitions[0].offset == 3


@simulated()
async def test_a_deletion_is_over_for_who_is_not_up(world: NodeWorld) -> None:
    """Broker 2 is not registered here: nobody waits for it."""
    topic_id, client = await with_follower(world)
    await client.ask(follow(topic_id, 3), NEWEST)
    response = await client.ask(delete("t", (0, 2)), 2)
    result = response.topics[0].partitions[0]
    assert (result.error_code, result.low_watermark) == (0, 2)


@simulated()
async def test_a_quiet_partition_is_neither_told_nor_noted_again(
    world: NodeWorld,
) -> None:
    topic_id, client = await with_follower(world)
    opened = await client.ask(follow(topic_id, 3, session_epoch=0), NEWEST)
    more = {"session_id": opened.session_id, "named": False}
    assert (await client.ask(follow(topic_id, session_epoch=1, **more), NEWEST)).responses == []
    leader_state = world.partition("t").leader_state
    assert leader_state is not None
    noted_ms = leader_state.followers[FOLLOWER].fetched_ms
    await world.pass_time(1_000)
    assert (await client.ask(follow(topic_id, session_epoch=2, **more), NEWEST)).responses == []
    assert leader_state.followers[FOLLOWER].fetched_ms == noted_ms  # it has all, and it is in sync
    world.partition("t").follow_metadata(two_replicas(1))
    await client.ask(follow(topic_id, session_epoch=3, **more), NEWEST)
    assert leader_state.followers[FOLLOWER].fetched_ms > noted_ms
    writer = await world.connect()
    await writer.ask(produce("t", batch(1), acks=1), 12)
    data = data_of(await client.ask(follow(topic_id, session_epoch=4, **more), NEWEST))
    assert len(data.records) > 0


@simulated()
async def test_a_reply_that_asks_whether_it_still_follows_does_not_wait(world: NodeWorld) -> None:
    """And what it asked for before tells nothing: that may have been on its way for long."""
    topic_id, client = await with_follower(world)
    partition = world.partition("t")
    early = client.ask(follow(topic_id, 3, max_wait_ms=10_000), NEWEST)
    await world.pass_time(100)
    assert not early.done()
    question = partition.ask_followers()
    await world.pass_time(100)
    assert early.done()
    assert not partition.is_followed_since(question)
    late = client.ask(follow(topic_id, 3, max_wait_ms=10_000), NEWEST)
    await world.pass_time(100)
    assert partition.is_followed_since(question)
    assert not late.done()


@simulated()
async def test_a_request_from_before_the_question_answers_nothing(world: NodeWorld) -> None:
    topic_id, client = await with_follower(world)
    opened = await client.ask(follow(topic_id, 3, session_epoch=0), NEWEST)
    more = {"session_id": opened.session_id, "named": False, "max_wait_ms": 10_000}
    partition = world.partition("t")
    question = partition.ask_followers()
    await client.ask(follow(topic_id, session_epoch=1, **more), NEWEST)
    assert not partition.is_followed_since(question)
    client.ask(follow(topic_id, session_epoch=2, **more), NEWEST)
    await world.pass_time(100)
    assert partition.is_followed_since(question)
    partition.follow_metadata(two_replicas(1, FOLLOWER, leader=FOLLOWER, epoch=1))
    assert not partition.is_followed_since(question)


@simulated()
async def test_who_is_not_in_sync_is_not_waited_for(world: NodeWorld) -> None:
    await with_follower(world)
    partition = world.partition("t")
    question = partition.ask_followers()
    assert not partition.is_followed_since(question)
    partition.follow_metadata(two_replicas(1))
    assert partition.is_followed_since(question)
