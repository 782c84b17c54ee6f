"""A broker that gets many partitions at once makes them while it serves others."""

import asyncio
from typing import Any

import pytest

from headrace.base.ids import TopicId, TopicPartition
from headrace.metadata.delta import MetadataDelta
from headrace.metadata.image import MetadataImage
from headrace.node.broker_metadata_publisher import AT_ONCE, PIECE, SLICE, SLICE_MS, BrokerMetadataPublisher
from headrace.testing.disk import Crash
from headrace.wire.schemas.api_versions import ApiVersionsRequest
from headrace.wire.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.schemas.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.server.node_world import NodeWorld, simulated

MANY = AT_ONCE + 5 * SLICE + 1


async def create(world: NodeWorld, name: str = "t", partitions: int = MANY) -> bytes:
    """Make a topic; on return it is decided, and its logs are still to be made."""
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)

    async def ask() -> Any:
        return await world.node.parts.controller.ask(request)

    response = await world.on_node(ask())
    assert response.topics[0].error_code == 0
    return bytes(response.topics[0].topic_id)


async def delete(world: NodeWorld, name: str = "t") -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=30_000)

    async def ask() -> Any:
        return await world.node.parts.controller.ask(request)

    assert (await world.on_node(ask())).responses[0].error_code == 0


def here(world: NodeWorld, name: str = "t") -> list[int]:
    """The partitions that are led here."""
    replicas = world.node.parts.replica_manager
    return sorted(each.topic_partition.partition for each in replicas if each.topic_partition.topic == name)


def folders(world: NodeWorld, name: str = "t") -> list[str]:
    return [each for each in world.machine.disk.list("/data") if each.startswith(f"{name}-")]


async def settle(world: NodeWorld) -> None:
    await world.on_node(world.node.metadata_publisher.settle())


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two slices others get a little virtual time, as they do on a machine that has to work."""

    async def let_others(_: BrokerMetadataPublisher) -> None:
        await asyncio.sleep(0.02)

    monkeypatch.setattr(BrokerMetadataPublisher, "_let_others", let_others)


@pytest.mark.usefixtures("slowly")
@simulated()
async def test_partitions_come_slice_by_slice_while_others_are_served(world: NodeWorld) -> None:
    client = await world.connect()
    await create(world)
    assert len(world.node.image.topics_by_name["t"].partitions) == MANY
    assert world.node.metadata_publisher.replayed_to(world.node.image) < world.node.image.offset
    seen = {len(here(world))}
    while len(here(world)) < MANY:
        await client.ask(ApiVersionsRequest(), 0)
        seen.add(len(here(world)))
    assert len(seen) >= 5, "answered in between"
    await settle(world)
    assert world.node.metadata_publisher.replayed_to(world.node.image) == world.node.image.offset
    assert here(world) == list(range(MANY))
    assert all(world.partition("t", index).is_leader for index in range(MANY))


@simulated()
async def test_a_small_topic_is_there_when_its_maker_hears_of_it(world: NodeWorld) -> None:
    await create(world, partitions=AT_ONCE // 2)
    assert len(here(world)) == AT_ONCE // 2


@pytest.mark.usefixtures("slowly")
@simulated()
async def test_a_small_topic_waits_behind_a_large_one(world: NodeWorld) -> None:
    await create(world)
    await create(world, "small", 1)
    assert here(world, "small") == []
    await settle(world)
    assert (len(here(world)), here(world, "small")) == (MANY, [0])


@pytest.mark.usefixtures("slowly")
@simulated()
async def test_a_topic_that_goes_while_it_is_made_leaves_nothing(world: NodeWorld) -> None:
    await create(world)
    await delete(world)
    await settle(world)
    assert here(world) == []
    assert not [name for name in folders(world) if not name.endswith("-delete")]


@pytest.mark.usefixtures("slowly")
@simulated()
async def test_a_topic_that_is_made_anew_while_it_is_made_has_the_new_id(world: NodeWorld) -> None:
    await create(world)
    await delete(world)
    topic_id = await create(world)
    await settle(world)
    assert len(here(world)) == MANY
    assert {world.log("t", index).topic_id for index in range(MANY)} == {topic_id}


@pytest.mark.usefixtures("slowly")
@pytest.mark.parametrize("end", ["stop", "kill", "power cut"])
@simulated()
async def test_what_was_not_made_yet_is_made_by_the_next_start(world: NodeWorld, end: str) -> None:
    topic_id = await create(world)
    assert len(here(world)) < MANY
    if end == "stop":
        await world.stop()
    else:
        world.kill(Crash.KILL if end == "kill" else Crash.POWER_CUT)
    await world.start()
    assert len(here(world)) == MANY
    assert {world.log("t", index).topic_id for index in range(MANY)} == {topic_id}
    assert world.node.parts.log_manager.get(TopicPartition("t", MANY)) is None


class Clock:
    """Time that passes with what is followed."""

    def __init__(self) -> None:
        self.ms = 0

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


@pytest.mark.parametrize(("piece_ms", "at_once"), [(0, SLICE), (SLICE_MS // 2, 2 * PIECE), (SLICE_MS, PIECE)])
def test_a_slice_is_short_in_number_and_in_time(piece_ms: int, at_once: int) -> None:
    async def scenario() -> list[int]:
        clock, seen = Clock(), [0]

        def follow(_: MetadataImage, piece: MetadataDelta) -> None:
            seen[-1] += piece.partition_count
            clock.ms += piece_ms

        following = BrokerMetadataPublisher(
            follow, loop=asyncio.get_running_loop(), clock=clock, on_failure=failures.append
        )
        delta = MetadataDelta()
        for index in range(4 * SLICE + AT_ONCE):
            delta.note_partition(TopicId(b"t" * 16), index)
        following(MetadataImage(), delta)
        while following._task is not None:
            await asyncio.sleep(0)
            seen.append(0)
        return [count for count in seen if count]

    failures: list[Exception] = []
    seen = asyncio.run(scenario())
    assert set(seen) == {at_once}
    assert sum(seen) == 4 * SLICE + AT_ONCE
    assert failures == []


def test_a_commit_that_comes_as_the_last_one_is_done_is_followed() -> None:
    """Its task is through and the callback has not run: a partition that came just then was led by nobody."""

    async def scenario() -> list[int]:
        loop, followed = asyncio.get_running_loop(), []
        late = MetadataDelta()
        late.note_partition(TopicId(b"l" * 16), 0)

        def done() -> None:
            followed.append(sum(pieces))
            pieces.clear()
            if len(followed) == 1:
                loop.call_soon(following, MetadataImage(), late)

        pieces: list[int] = []
        following = BrokerMetadataPublisher(
            lambda _, piece: pieces.append(piece.partition_count),
            loop=loop,
            clock=Clock(),
            on_failure=failures.append,
            on_followed=done,
        )
        following(MetadataImage(), many())
        while following._task is not None:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        return followed

    failures: list[Exception] = []
    assert asyncio.run(scenario()) == [AT_ONCE + 1, 1]
    assert failures == []


def many() -> MetadataDelta:
    """Too much for one turn."""
    delta = MetadataDelta()
    for index in range(AT_ONCE + 1):
        delta.note_partition(TopicId(b"t" * 16), index)
    return delta


def test_what_cannot_be_followed_ends_the_node() -> None:
    async def scenario() -> None:
        def follow(_: MetadataImage, piece: MetadataDelta) -> None:
            raise ValueError("what is this?")

        following = BrokerMetadataPublisher(
            follow, loop=asyncio.get_running_loop(), clock=Clock(), on_failure=failures.append
        )
        following(MetadataImage(), many())
        await following.settle()

    failures: list[Exception] = []
    asyncio.run(scenario())
    assert [str(error) for error in failures] == ["what is this?"]


def test_a_delta_in_slices_says_the_same_as_a_whole() -> None:
    delta = MetadataDelta()
    for topic, count in ((b"a", 3), (b"b", 0), (b"c", 10), (b"d", 1)):
        delta.note_created(topic)
        for index in range(count):
            delta.note_partition(topic, index)
    delta.note_partition(b"old", 7)
    delta.brokers_changed.add(4)
    delta.topics_deleted.append(b"gone")
    pieces = list(delta.slices(4))
    assert [piece.partition_count for piece in pieces] == [4, 4, 4, 3]
    assert [piece.brokers_changed for piece in pieces] == [{4}, set(), set(), set()]
    assert [piece.topics_deleted for piece in pieces] == [[b"gone"], [], [], []]
    assert sorted(topic for piece in pieces for topic in piece.topics_created) == [b"a", b"b", b"c", b"d"]
    joined: dict[bytes, set[int]] = {}
    for piece in pieces:
        for topic, numbers in piece.topics_changed.items():
            joined.setdefault(topic, set()).update(numbers)
    assert joined == delta.topics_changed
    assert [piece.partition_count for piece in MetadataDelta().slices(4)] == [0]
