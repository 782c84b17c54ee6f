"""Tables there and back, on virtual time and with a network that fails: no row lost, doubled or reordered."""

from typing import Any

import pyarrow as pa
import pytest

from headrace.base.ids import TopicPartition
from tests.clients.test_producer import play
from tests.clients.worlds import ClientWorld, partitions


def table(first: int, last: int, **columns: Any) -> pa.Table:
    return pa.table({"value": [b"%d" % number for number in range(first, last)], **columns})


async def read(consumer: Any, count: int, **options: Any) -> pa.Table:
    found: list[pa.Table] = []
    while sum(each.num_rows for each in found) < count:
        found.append(await consumer.poll_arrow(5.0, **options))
        assert found[-1].num_rows, f"{sum(each.num_rows for each in found)} rows of {count}"
    return pa.concat_tables(found, promote_options="permissive")


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_there_and_back(codec: str) -> None:
    async def script(world: ClientWorld) -> None:
        await world.create_topic("t", 3)
        async with world.producer(compression_type=codec) as producer:
            rows = table(0, 1_000, key=[b"k%d" % (number % 50) for number in range(1_000)])
            deliveries = await producer.send_arrow("t", rows)
            assert {(await each).offset for each in deliveries} == {0}
            by_row = [await producer.send("t", b"row", key=b"k%d" % number) for number in range(50)]
            placed = {b"k%d" % number: (await each).partition for number, each in enumerate(by_row)}
        async with world.consumer(auto_offset_reset="earliest") as consumer:
            consumer.assign(partitions("t", 3))
            found = (await read(consumer, 1_050)).to_pylist()
            assert consumer.positions() == {
                each: world.log(each.topic, each.partition).log_end_offset for each in partitions("t", 3)
            }
        # Rows and tables choose the same partition for a key.
        assert all(placed[row["key"]] == row["partition"] for row in found)
        for index in range(3):
            own = [row for row in found if row["partition"] == index]
            assert [row["offset"] for row in own] == list(range(len(own)))
            numbers = [int(row["value"]) for row in own if row["value"] != b"row"]
            assert numbers == sorted(numbers)

    play(script)


def test_rows_and_columns_can_be_mixed() -> None:
    async def script(world: ClientWorld) -> None:
        await world.create_topic("t")
        async with world.producer() as producer:
            await producer.send_arrow("t", table(0, 100))
        async with world.consumer(auto_offset_reset="earliest", max_poll_records=7) as consumer:
            consumer.assign([TopicPartition("t", 0)])
            assert [row.value for row in await consumer.poll(5)] == [b"%d" % n for n in range(7)]
            rest = await read(consumer, 93, columns=["offset", "value"])
            assert rest.column_names == ["offset", "value"]
            assert rest["offset"].to_pylist() == list(range(7, 100))
            assert (await consumer.poll_arrow(0.01)).num_rows == 0

    play(script)


@pytest.mark.parametrize("seed", range(3))
def test_tables_survive_cuts(seed: int) -> None:
    async def script(world: ClientWorld) -> None:
        await world.create_topic("t")
        rng = world.surroundings().rng
        settings = {"request_timeout_ms": 500, "buffer_memory": 100_000, "retry_backoff_ms": 20}
        async with world.producer(**settings) as producer:
            for first in range(0, 5_000, 100):
                await producer.send_arrow("t", table(first, first + 100))
                if rng.random() < 0.2:
                    world.cut_all()
                await world.pass_time(rng.choice([0, 1, 20]))
        assert world.values("t") == [b"%d" % number for number in range(5_000)]

    play(script, seed)


def test_memory_is_used_again_only_when_a_broker_has_answered() -> None:
    async def script(world: ClientWorld) -> None:
        await world.create_topic("t")
        async with world.producer(
            request_timeout_ms=500, retry_backoff_ms=20, max_request_size=100_000
        ) as producer:
            data = table(0, 20_000)
            for number in range(6):
                deliveries = await producer.send_arrow("t", data)
                assert len(deliveries) > 1
                if number % 2:
                    world.cut_all()
            await producer.flush()
            spare = producer.core.tables._spare
            assert spare is not None
            assert 0 < len(spare._spare) <= 7
            assert len(set(map(id, spare._spare))) == len(spare._spare)
        expected = [b"%d" % number for number in range(20_000)]
        assert world.values("t") == expected * 6

    play(script)


def test_a_table_in_chunks_fills_its_batches() -> None:
    async def script(world: ClientWorld) -> None:
        await world.create_topic("t", 2)
        chunks = [
            table(first, first + 10, partition=[index % 2] * 10)
            for index, first in enumerate(range(0, 200, 10))
        ]
        async with world.producer() as producer:
            deliveries = await producer.send_arrow("t", pa.concat_tables(chunks))
            assert len(deliveries) == 2
            with pytest.raises(ValueError, match="partitions go from 0 to 1"):
                await producer.send_arrow("t", table(0, 2, partition=[0, 2]))
        assert len(world.values("t", 0)) == len(world.values("t", 1)) == 100

    play(script)


def test_a_column_that_no_record_has_is_an_error() -> None:
    """Key and Value were passed over without a word: the records were three tombstones."""

    async def script(world: ClientWorld) -> None:
        await world.create_topic("t")
        async with world.producer() as producer:
            with pytest.raises(ValueError, match=r"unknown columns: Key, Value; a record's are key, value, "):
                await producer.send_arrow("t", pa.table({"Key": [b"k"], "Value": [b"v"]}))
            with pytest.raises(ValueError, match="columns twice: value"):
                await producer.send_arrow("t", pa.table([[b"a"], [b"b"]], names=["value", "value"]))
            with pytest.raises(TypeError, match=r"not list; pyarrow\.table"):
                await producer.send_arrow("t", [{"value": b"v"}])
        assert world.values("t") == []

    play(script)


def test_what_was_polled_can_be_sent_on() -> None:
    async def script(world: ClientWorld) -> None:
        for name in ("a", "b"):
            await world.create_topic(name)
        async with world.producer() as producer, world.consumer(auto_offset_reset="earliest") as consumer:
            await producer.send_arrow("a", table(0, 10))
            await producer.flush()
            consumer.assign([TopicPartition("a", 0)])
            await producer.send_arrow("b", await read(consumer, 10))
        assert world.values("b") == [b"%d" % number for number in range(10)]

    play(script)


def test_a_data_frame_is_a_table() -> None:
    pandas = pytest.importorskip("pandas")

    async def script(world: ClientWorld) -> None:
        await world.create_topic("t")
        async with world.producer() as producer:
            frame = pandas.DataFrame({"key": ["a", "b"], "value": [b"1", None]}, index=["x", "y"])
            await producer.send_arrow("t", frame)
            await producer.send_arrow("t", frame.set_index("key"))
            with pytest.raises(ValueError, match="unknown columns: day"):
                await producer.send_arrow("t", frame.rename_axis("day"))
        assert world.values("t") == [b"1", None] * 2
        assert world.keys("t") == [b"a", b"b"] * 2

    play(script)
