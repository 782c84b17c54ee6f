"""The consumer with a real node, on virtual time: positions, resets, pauses, and a network that fails."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from headrace.base.ids import TopicPartition
from headrace.clients import ConsumerRecord, OffsetAndMetadata
from headrace.clients.errors import ClientError, ClosedError, NoOffsetError, WakeupError
from tests.clients.test_producer import numbered, play
from tests.clients.worlds import ClientWorld, read_until

T0 = TopicPartition("t", 0)
Script = Callable[[ClientWorld], Coroutine[Any, Any, None]]


async def fill(
    world: ClientWorld, count: int, *, topic: str = "t", partitions: int = 1, **settings: Any
) -> None:
    await world.create_topic(topic, partitions)
    async with world.producer(**settings) as producer:
        for number in range(count):
            await producer.send(
                topic, b"%d" % number, partition=number % partitions, timestamp_ms=1_600_000_000_000 + number
            )


async def values(consumer: Any, count: int) -> list[bytes]:
    rows: list[ConsumerRecord] = []
    await read_until([consumer], rows, count)
    return [row.value for row in rows]


def test_from_the_beginning_in_order_and_in_portions() -> None:
    async def script(world: ClientWorld) -> None:
        await fill(world, 1_200, batch_size=500)
        async with world.consumer(auto_offset_reset="earliest", max_poll_records=100) as consumer:
            consumer.assign([T0])
            portions = []
            while sum(map(len, portions)) < 1_200:
                portions.append(await consumer.poll(10))
            assert max(map(len, portions)) == 100
            rows = [row for portion in portions for row in portion]
            assert [row.value for row in rows] == numbered(0, 1_200)
            assert [row.offset for row in rows] == list(range(1_200))
            assert await consumer.position(T0) == 1_200
            assert consumer.lag(T0) == 0

    play(script)


def test_from_the_end_by_default() -> None:
    async def script(world: ClientWorld) -> None:
        await fill(world, 10)
        async with world.consumer() as consumer, world.producer() as producer:
            consumer.assign([T0])
            assert await consumer.position(T0) == 10
            await producer.send("t", b"new")
            assert await values(consumer, 1) == [b"new"]

    play(script)


def test_seeks() -> None:
    async def script(world: ClientWorld) -> None:
        await fill(world, 100)
        async with world.consumer(max_poll_records=1) as consumer:
            consumer.assign([T0])
            consumer.seek(T0, 42)
            assert await values(consumer, 1) == [b"42"]
            consumer.seek_to_beginning(T0)
            assert await values(consumer, 1) == [b"0"]
            consumer.seek_to_time(1_600_000_000_007)
            assert await values(consumer, 1) == [b"7"]
            consumer.seek_to_end()
            assert await consumer.position(T0) == 100
            consumer.seek_to_time(1_600_000_009_000, T0)
            assert await consumer.position(T0) == 100
            assert await consumer.end_offsets([T0]) == {T0: 100}
            assert await consumer.beginning_offsets([T0]) == {T0: 0}
            found = await consumer.offsets_for_times({T0: 1_600_000_000_033})
            assert found[T0] is not None
            assert found[T0].offset == 33
            with pytest.raises(ClientError, match="not assigned"):
                consumer.seek(TopicPartition("t", 5), 0)

    play(script)


def test_a_paused_partition_waits_and_others_go_on() -> None:
    async def script(world: ClientWorld) -> None:
        await fill(world, 20, partitions=2)
        async with world.consumer(auto_offset_reset="earliest") as consumer:
            one, two = TopicPartition("t", 0), TopicPartition("t", 1)
            consumer.assign([one, two])
            consumer.pause(one)
            rows: list[ConsumerRecord] = []
            await read_until([consumer], rows, 10)
            assert {row.partition for row in rows} == {1}
            assert consumer.paused == {one}
            consumer.resume(one)
            await read_until([consumer], rows, 20)
            assert len(rows) == 20

    play(script)


def test_out_of_range_goes_to_the_policy() -> None:
    async def script(world: ClientWorld) -> None:
        await fill(world, 5)
        async with world.consumer(auto_offset_reset="earliest") as consumer:
            consumer.assign([T0])
            consumer.seek(T0, 1_000)
            assert await values(consumer, 5) == numbered(0, 5)
        async with world.consumer(auto_offset_reset="none") as consumer:
            consumer.assign([T0])
            with pytest.raises(NoOffsetError, match=r"auto\.offset\.reset is none"):
                await consumer.poll(5)

    play(script)


@pytest.mark.parametrize("seed", range(6))
def test_every_record_once_and_in_order_whatever_is_cut(seed: int) -> None:
    async def script(world: ClientWorld) -> None:
        await fill(world, 600, partitions=2, batch_size=300)
        rng = world.surroundings().rng
        settings = {"auto_offset_reset": "earliest", "request_timeout_ms": 600, "max_poll_records": 20}
        async with world.consumer(**settings, max_partition_fetch_bytes=1_000) as consumer:
            consumer.assign([TopicPartition("t", 0), TopicPartition("t", 1)])
            rows: list[ConsumerRecord] = []
            while len(rows) < 600:
                rows += await consumer.poll(0.2)
                if rng.random() < 0.1:
                    world.cut_all()
                if rng.random() < 0.05:
                    world.partition_off()
                    world.world.scheduler.after(rng.uniform(0.1, 1.5), world.heal)
                if rng.random() < 0.02:
                    world.kill()
                    await world.start()
        for index in range(2):
            assert [row.offset for row in rows if row.partition == index] == list(range(300))

    play(script, seed)


def test_commits_without_a_membership() -> None:
    async def script(world: ClientWorld) -> None:
        await fill(world, 10)
        async with world.consumer(group_id="g", auto_offset_reset="earliest") as consumer:
            consumer.assign([T0])
            assert await consumer.committed([T0]) == {}
            assert await values(consumer, 10) == numbered(0, 10)
            await consumer.commit({T0: OffsetAndMetadata(4, metadata="note")})
            assert (await consumer.committed([T0]))[T0] == OffsetAndMetadata(4, -1, "note")
            heard: list[Any] = []
            consumer.commit_async({T0: 7}, lambda offsets, error: heard.append((offsets, error)))
            await world.until(lambda: bool(heard))
            assert heard[0][1] is None
        # Leaving commits the position, since enable.auto.commit is on.
        async with world.consumer(group_id="g") as consumer:
            assert (await consumer.committed([T0]))[T0].offset == 10
            consumer.assign([T0])
            assert await consumer.position(T0) == 10

    play(script)


def test_a_wakeup_ends_a_poll() -> None:
    async def script(world: ClientWorld) -> None:
        await fill(world, 0)
        async with world.consumer() as consumer:
            consumer.assign([T0])
            polling = asyncio.ensure_future(consumer.poll(1_000))
            await world.pass_time(50)
            consumer.wakeup()
            with pytest.raises(WakeupError):
                await polling
            assert await consumer.poll(0.1) == []
        with pytest.raises(ClosedError):
            await consumer.poll(0.1)

    play(script)


def test_memory_is_bounded_while_nobody_polls() -> None:
    async def script(world: ClientWorld) -> None:
        await fill(world, 5_000, batch_size=1_000)
        settings = {"max_partition_fetch_bytes": 4_000, "max_poll_records": 1}
        async with world.consumer(auto_offset_reset="earliest", **settings) as consumer:
            consumer.assign([T0])
            await values(consumer, 1)
            await world.pass_time(10_000)
            assert consumer.core.positions.buffered_bytes() <= 3 * 4_000

    play(script)


def test_a_group_needs_a_name() -> None:
    async def script(world: ClientWorld) -> None:
        async with world.consumer() as consumer:
            with pytest.raises(ClientError, match=r"group\.id"):
                consumer.subscribe(["t"])
            with pytest.raises(ClientError, match=r"group\.id"):
                await consumer.commit()

    play(script)
