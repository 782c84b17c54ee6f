"""Consumers that share partitions, on virtual time: who owns what, what is committed, and who takes over."""

import asyncio
import itertools
from collections import defaultdict
from typing import Any

import pytest

from headrace.base.ids import TopicPartition
from headrace.clients import AsyncConsumer, ConsumerRecord, RebalanceListener
from headrace.clients.errors import CommitFailedError
from tests.clients.test_consumer import fill
from tests.clients.test_producer import play
from tests.clients.worlds import ClientWorld, partitions, read_until

WAYS: dict[str, dict[str, str]] = {
    "range": {"partition_assignment_strategy": "range"},
    "roundrobin": {"partition_assignment_strategy": "roundrobin"},
    "sticky": {"partition_assignment_strategy": "sticky"},
    "cooperative-sticky": {"partition_assignment_strategy": "cooperative-sticky"},
    "kip-848": {"group_protocol": "consumer"},
}
BROKER = {"group_consumer_heartbeat_interval_ms": "500", "group_consumer_min_heartbeat_interval_ms": "500"}


class Notes(RebalanceListener):
    """Remembers what it was told, and checks that it makes sense."""

    def __init__(self) -> None:
        self.held: set[TopicPartition] = set()
        self.lost: list[TopicPartition] = []
        self.revoked: list[TopicPartition] = []

    def on_assigned(self, partitions: list[TopicPartition]) -> None:
        assert not self.held & set(partitions)
        self.held |= set(partitions)

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        assert self.held >= set(partitions)
        self.held -= set(partitions)
        self.revoked += partitions

    def on_lost(self, partitions: list[TopicPartition]) -> None:
        self.held -= set(partitions)
        self.lost += partitions


def member(world: ClientWorld, **settings: Any) -> tuple[AsyncConsumer, Notes]:
    options: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest", "heartbeat_interval_ms": 300}
    consumer, notes = world.consumer(**(options | settings)), Notes()
    consumer.subscribe(["t"], listener=notes)
    return consumer, notes


async def shared(consumers: list[AsyncConsumer], counts: list[int], seen: list[ConsumerRecord]) -> None:
    """Poll until every consumer has as many partitions as expected."""
    for _ in range(3_000):
        for consumer in consumers:
            seen += await consumer.poll(0.02)
        if sorted(len(each.assignment) for each in consumers) == sorted(counts):
            owned = [one for each in consumers for one in each.assignment]
            if len(owned) == len(set(owned)):
                return
    raise AssertionError([each.assignment for each in consumers])


@pytest.mark.parametrize("way", WAYS)
def test_members_come_and_go(way: str) -> None:
    async def script(world: ClientWorld) -> None:
        await fill(world, 600, partitions=6)
        seen: list[ConsumerRecord] = []
        first, notes = member(world, **WAYS[way])
        await shared([first], [6], seen)
        await read_until([first], seen, 600)
        second, _ = member(world, **WAYS[way])
        third, _ = member(world, **WAYS[way])
        await shared([first, second, third], [2, 2, 2], seen)
        assert notes.held == first.assignment
        await second.close()
        await shared([first, third], [3, 3], seen)
        await third.close()
        await shared([first], [6], seen)
        # Positions were committed at every change: nobody read anything twice.
        assert sorted((row.partition, row.offset) for row in seen) == [
            (partition, offset) for partition in range(6) for offset in range(100)
        ]
        assert (await first.committed(partitions("t", 6)))[TopicPartition("t", 3)].offset == 100
        await first.close()
        assert not notes.held

    play(script, **BROKER)


async def poll_for(world: ClientWorld, consumers: list[AsyncConsumer], milliseconds: int) -> None:
    end_ms = world.now_ms() + milliseconds
    while world.now_ms() < end_ms:
        for consumer in consumers:
            await consumer.poll(0.05)


@pytest.mark.parametrize("way", ["range", "cooperative-sticky", "kip-848"])
def test_a_calm_group_hears_at_once_of_who_comes_and_goes(way: str) -> None:
    async def script(world: ClientWorld) -> None:
        await fill(world, 60, partitions=6)
        slow = WAYS[way] | {"heartbeat_interval_ms": 3_000}
        seen: list[ConsumerRecord] = []
        consumers = [member(world, **slow)[0] for _ in range(2)]
        await shared(consumers, [3, 3], seen)
        await poll_for(world, consumers, 7_000)
        began_ms = world.now_ms()
        consumers.append(member(world, **slow)[0])
        await shared(consumers, [2, 2, 2], seen)
        assert world.now_ms() - began_ms < 1_000
        await poll_for(world, consumers, 7_000)
        began_ms = world.now_ms()
        await consumers.pop().close()
        await shared(consumers, [3, 3], seen)
        assert world.now_ms() - began_ms < 1_000

    play(script)


@pytest.mark.parametrize("way", ["range", "kip-848"])
def test_a_heartbeat_that_is_kept_holds_up_no_commit(way: str) -> None:
    async def script(world: ClientWorld) -> None:
        await fill(world, 60, partitions=6)
        consumer, _ = member(world, **WAYS[way] | {"heartbeat_interval_ms": 3_000})
        await shared([consumer], [6], [])
        for _ in range(20):
            await poll_for(world, [consumer], 700)
            began_ms = world.now_ms()
            await consumer.commit({TopicPartition("t", 0): 5})
            assert world.now_ms() - began_ms < 100
        await consumer.close()

    play(script, group_consumer_heartbeat_interval_ms="5000")


class SlowToLetGo(RebalanceListener):
    """A user who has much to do before partitions can be given up."""

    async def on_revoked(self, partitions: list[TopicPartition]) -> None:
        await asyncio.sleep(0.5)


async def longest_pause_ms(world: ClientWorld, way: str) -> float:
    """How long a partition was silent at most that stayed with its owner, while another member joined and
    left, and a third took its time to let go. Records are written all the time.
    """
    slow, _ = member(world, **WAYS[way])
    slow.subscribe(["t"], listener=SlowToLetGo())
    steady, _ = member(world, **WAYS[way])
    await shared([slow, steady], [3, 3], [])
    kept = set(steady.assignment)
    heard: defaultdict[int, list[float]] = defaultdict(list)

    async def write() -> None:
        async with world.producer(linger_ms=0) as producer:
            while True:
                await asyncio.gather(*[await producer.send("t", b"", partition=each) for each in range(6)])
                await asyncio.sleep(0.05)

    async def read(consumer: AsyncConsumer) -> None:
        while True:
            for row in await consumer.poll(0.05):
                if consumer is steady:
                    heard[row.partition].append(world.now_ms())

    tasks = [asyncio.ensure_future(each) for each in (write(), read(slow), read(steady))]
    await asyncio.sleep(2)
    third, _ = member(world, **WAYS[way])
    reading = asyncio.ensure_future(read(third))
    await asyncio.sleep(2)
    assert len(third.assignment) == 2
    kept &= set(steady.assignment)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    await third.close()
    await asyncio.sleep(2)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert sorted(len(each.assignment) for each in (slow, steady)) == [3, 3]
    for consumer in (slow, steady):
        await consumer.close()
    return max(after - before for each in kept for before, after in itertools.pairwise(heard[each.partition]))


@pytest.mark.parametrize(
    ("way", "pauses"), [("cooperative-sticky", False), ("kip-848", False), ("range", True)]
)
def test_who_keeps_its_partitions_sees_no_pause_unless_the_way_is_eager(way: str, pauses: bool) -> None:
    async def script(world: ClientWorld) -> None:
        await fill(world, 6, partitions=6)
        pause_ms = await longest_pause_ms(world, way)
        assert pause_ms > 400 if pauses else pause_ms < 120

    play(script)


def test_with_cooperation_only_what_moves_is_revoked() -> None:
    async def script(world: ClientWorld) -> None:
        await fill(world, 8, partitions=4)
        first, notes = member(world, partition_assignment_strategy="cooperative-sticky")
        await shared([first], [4], [])
        second, _ = member(world, partition_assignment_strategy="cooperative-sticky")
        await shared([first, second], [2, 2], [])
        assert len(notes.revoked) == 2
        assert not notes.lost
        await first.close()
        await second.close()

    play(script)


def test_a_member_that_falls_silent_is_replaced_and_cannot_commit() -> None:
    async def script(world: ClientWorld) -> None:
        await fill(world, 40, partitions=4)
        first, _ = member(world)
        silent, notes = member(world, session_timeout_ms=6_000, max_poll_interval_ms=8_000)
        seen: list[ConsumerRecord] = []
        await shared([first, silent], [2, 2], seen)
        await shared([first], [4], seen)  # only one polls
        with pytest.raises(CommitFailedError, match=r"max\.poll\.interval\.ms"):
            await silent.commit({TopicPartition("t", 0): 1, TopicPartition("t", 3): 1})
        await shared([first, silent], [2, 2], seen)
        assert notes.lost
        await first.close()
        await silent.close()

    play(script)


@pytest.mark.parametrize("way", ["range", "cooperative-sticky", "kip-848"])
@pytest.mark.parametrize("seed", range(3))
def test_a_group_survives_cuts_and_a_restart(seed: int, way: str) -> None:
    async def script(world: ClientWorld) -> None:
        await fill(world, 300, partitions=3)
        rng = world.surroundings().rng
        options = {"request_timeout_ms": 2_000, "max_poll_records": 7}
        if way != "kip-848":
            options["session_timeout_ms"] = 6_000
        consumers = [member(world, **options, **WAYS[way])[0] for _ in range(3)]
        seen: set[tuple[int, int]] = set()
        for round_number in range(6_000):
            for consumer in consumers:
                seen |= {(row.partition, row.offset) for row in await consumer.poll(0.02)}
            if round_number < 100 and rng.random() < 0.05:
                world.cut_all()
            if round_number == 40:
                world.kill()
                await world.start()
            if len(seen) == 300 and round_number > 100:
                break
        assert len(seen) == 300
        await shared(consumers, [1, 1, 1], [])
        for consumer in consumers:
            await consumer.close()

    play(script, seed, **BROKER)


def test_a_pattern_finds_topics_that_come_later() -> None:
    async def script(world: ClientWorld) -> None:
        await fill(world, 5, topic="log-a")
        await fill(world, 5, topic="other")
        consumer = world.consumer(group_id="g", auto_offset_reset="earliest", metadata_max_age_ms=500)
        consumer.subscribe(pattern="log-.*")
        seen: list[ConsumerRecord] = []
        await read_until([consumer], seen, 5)
        await fill(world, 5, topic="log-b")
        await read_until([consumer], seen, 10)
        assert {row.topic for row in seen} == {"log-a", "log-b"}
        assert consumer.subscription == {"log-a", "log-b"}
        await consumer.unsubscribe()
        assert consumer.assignment == set()
        await consumer.close()

    play(script)


def test_partitions_that_are_added_are_shared() -> None:
    async def script(world: ClientWorld) -> None:
        await fill(world, 4, partitions=2)
        consumer, _ = member(world, metadata_max_age_ms=500)
        seen: list[ConsumerRecord] = []
        await read_until([consumer], seen, 4)
        from headrace.wire.schemas.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic

        topic = CreatePartitionsTopic(name="t", count=5, assignments=None)

        async def grow() -> Any:
            return await world.node.parts.controller.ask(
                CreatePartitionsRequest(topics=[topic], timeout_ms=5_000)
            )

        await world.on_node(grow())
        await shared([consumer], [5], seen)
        await consumer.close()

    play(script)


def test_a_static_member_keeps_its_partitions_over_a_restart() -> None:
    async def script(world: ClientWorld) -> None:
        await fill(world, 4, partitions=2)
        first, notes = member(world, group_instance_id="one")
        second, _ = member(world, group_instance_id="two")
        await shared([first, second], [1, 1], [])
        before = second.assignment
        await second.close()
        again, _ = member(world, group_instance_id="two")
        revoked = len(notes.revoked)
        await shared([first, again], [1, 1], [])
        assert again.assignment == before
        assert len(notes.revoked) == revoked
        await first.close()
        await again.close()

    play(script)


def test_auto_commit_by_the_clock() -> None:
    async def script(world: ClientWorld) -> None:
        await fill(world, 10)
        consumer, _ = member(world, auto_commit_interval_ms=1_000)
        await read_until([consumer], [], 10)
        for _ in range(30):
            await consumer.poll(0.1)
        other = world.consumer(group_id="g")
        assert (await other.committed([TopicPartition("t", 0)]))[TopicPartition("t", 0)].offset == 10
        await other.close()
        await consumer.close()

    play(script)


def test_listeners_may_use_the_consumer() -> None:
    class Rewinding(RebalanceListener):
        async def on_assigned(self, partitions: list[TopicPartition]) -> None:
            await asyncio.sleep(0.01)
            consumer.seek(TopicPartition("t", 0), 7)

    async def script(world: ClientWorld) -> None:
        nonlocal consumer
        await fill(world, 10)
        consumer = world.consumer(group_id="g")
        consumer.subscribe(["t"], listener=Rewinding())
        seen: list[ConsumerRecord] = []
        await read_until([consumer], seen, 3)
        assert [row.offset for row in seen] == [7, 8, 9]
        await consumer.close()

    consumer: Any = None
    play(script)


def test_a_topic_that_is_deleted_holds_nobody_up() -> None:
    async def script(world: ClientWorld) -> None:
        await fill(world, 10)
        consumer, _ = member(world)
        await read_until([consumer], [], 10)
        await world.delete_topic("t")
        for _ in range(20):
            await consumer.poll(0.1)
        assert consumer.trouble is not None
        assert "topic 't'" in str(consumer.trouble)
        began = world.now_ms()
        await consumer.close()
        assert world.now_ms() - began < 5_000

    play(script, auto_create_topics_enable="false")
