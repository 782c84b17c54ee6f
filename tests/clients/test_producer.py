"""The producer with a real node, on virtual time: batches, order, retries, and what full or late means."""

import asyncio
import itertools
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from headrace.clients import RecordMetadata
from headrace.clients.config import producer_config
from headrace.clients.errors import (
    BufferFullError,
    ClientError,
    NoSuchTopicError,
    RefusedError,
    TimedOutError,
)
from headrace.clients.internals.producer.core import Lacks
from headrace.settings.definition import SettingError
from tests.clients.worlds import ClientWorld

Script = Callable[[ClientWorld], Coroutine[Any, Any, None]]


def play(script: Script, seed: int = 1, **settings: str) -> None:
    with ClientWorld({name.replace("_", "."): value for name, value in settings.items()}, seed=seed) as world:

        async def whole() -> None:
            await world.start()
            await script(world)

        world.run(whole())


def numbered(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last)]


def test_a_record_is_told_where_it_is() -> None:
    async def script(world: ClientWorld) -> None:
        await world.create_topic("t")
        async with world.producer() as producer:
            delivery = await producer.send("t", b"v", key=b"k", timestamp_ms=1_600_000_000_123)
            assert await delivery == RecordMetadata("t", 0, 0, 1_600_000_000_123)
            assert delivery.done()
            assert (await (await producer.send("t", b"w"))).offset == 1

    play(script)


def test_records_within_the_linger_share_a_batch() -> None:
    async def script(world: ClientWorld) -> None:
        await world.create_topic("t")
        async with world.producer(linger_ms=50) as producer:
            deliveries = [await producer.send("t", value) for value in numbered(0, 20)]
            began = world.now_ms()
            assert [(await each).offset for each in deliveries] == list(range(20))
            assert world.now_ms() - began >= 50
        data = world.log("t").read(0, max_bytes=1 << 20, max_offset=20, at_least_one=True)
        assert world.values("t") == numbered(0, 20)
        assert data.chunk

    play(script)


def test_a_flush_does_not_wait_for_the_linger() -> None:
    async def script(world: ClientWorld) -> None:
        await world.create_topic("t")
        async with world.producer(linger_ms=60_000) as producer:
            delivery = await producer.send("t", b"v")
            began = world.now_ms()
            await producer.flush()
            assert delivery.done()
            assert world.now_ms() - began < 5_000

    play(script)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_codecs_headers_and_nulls(codec: str) -> None:
    async def script(world: ClientWorld) -> None:
        await world.create_topic("t")
        async with world.producer(compression_type=codec) as producer:
            await producer.send("t", None, key=b"k")
            await producer.send("t", b"v", headers=[("a", b"1"), ("b", None)])
        async with world.consumer(auto_offset_reset="earliest") as consumer:
            consumer.assign([("t", 0)])
            rows = await consumer.poll(10)
            assert [(row.key, row.value, row.headers) for row in rows] == [
                (b"k", None, ()),
                (None, b"v", (("a", b"1"), ("b", None))),
            ]

    play(script)


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_lost_doubled_or_reordered_whatever_is_cut(seed: int) -> None:
    """Connections are reset, and the way is blocked for longer than a request may take, while it sends."""

    async def script(world: ClientWorld) -> None:
        await world.create_topic("t", 3)
        rng = world.surroundings().rng
        settings = {"batch_size": 200, "linger_ms": 1, "request_timeout_ms": 500, "retry_backoff_ms": 20}
        async with world.producer(**settings) as producer:
            deliveries = []
            for number in range(300):
                deliveries.append(await producer.send("t", b"%d" % number, partition=number % 3))
                if rng.random() < 0.05:
                    world.cut_all()
                if rng.random() < 0.02:
                    world.world.network.block("node", "client")  # answers are lost, requests are not
                    world.world.scheduler.after(rng.uniform(0.1, 1.5), world.heal)
                await asyncio.sleep(rng.choice([0, 0, 0.002, 0.02]))
            placed = [await each for each in deliveries]
        for index in range(3):
            assert world.values("t", index) == [b"%d" % number for number in range(index, 300, 3)]
            assert [each.offset for each in placed if each.partition == index] == list(range(100))

    play(script, seed)


@pytest.mark.parametrize("seed", range(4))
def test_a_node_that_is_killed_and_comes_back(seed: int) -> None:
    async def script(world: ClientWorld) -> None:
        await world.create_topic("t")
        producer = world.producer(batch_size=100, linger_ms=1, request_timeout_ms=1_000)
        deliveries = [await producer.send("t", value) for value in numbered(0, 50)]
        await deliveries[10]
        world.kill()
        deliveries += [await producer.send("t", value) for value in numbered(50, 100)]
        await world.start()
        assert [(await each).offset for each in deliveries] == list(range(100))
        await producer.close()
        assert world.values("t") == numbered(0, 100)

    play(script, seed)


def test_memory_that_stays_full() -> None:
    async def script(world: ClientWorld) -> None:
        await world.create_topic("t")
        producer = world.producer(buffer_memory=2_060, max_block_ms=700, batch_size=500)
        first = await producer.send("t", b"v")
        await first
        world.partition_off()
        began = world.now_ms()

        async def overfill() -> None:
            for _ in range(100):
                await producer.send("t", b"v" * 100)

        with pytest.raises(BufferFullError, match=r"buffer\.memory"):
            await overfill()
        assert world.now_ms() - began >= 700
        world.heal()
        await producer.send("t", b"again", partition=0)
        await producer.close()
        assert world.values("t")[-1] == b"again"

    play(script)


def test_a_sender_waits_for_memory_and_goes_on() -> None:
    async def script(world: ClientWorld) -> None:
        await world.create_topic("t")
        async with world.producer(buffer_memory=2_000, batch_size=500) as producer:
            for value in numbered(0, 300):
                await producer.send("t", value)
        assert world.values("t") == numbered(0, 300)

    play(script)


@pytest.mark.parametrize("seed", range(4))
def test_memory_is_given_back_to_the_byte(seed: int) -> None:
    """Keys, partitions, tables' rows and sizes in any mixture: batches close for every reason there is."""

    async def script(world: ClientWorld) -> None:
        await world.create_topic("t", 3)
        rng = random.Random(seed)
        settings = {"buffer_memory": 20_000, "batch_size": 700, "request_timeout_ms": 500}
        async with world.producer(**settings, retry_backoff_ms=20) as producer:
            taken = []
            for number in range(800):
                value = b"%d " % number + b"x" * rng.choice([0, 30, 700])
                how = rng.choice([{}, {}, {}, {"key": b"k%d" % (number % 5)}, {"partition": 1}])
                taken.append((value, await producer.send("t", value, **how)))
                if rng.random() < 0.02:
                    world.cut_all()
                if rng.random() < 0.05:
                    await world.pass_time(rng.choice([1, 20]))
            await producer.flush()
            batches = producer.core.batches
            assert batches.free_bytes == batches.memory_bytes
            for value, delivery in taken:
                place = await delivery
                assert world.values("t", place.partition)[place.offset] == value
        assert sum(len(world.values("t", index)) for index in range(3)) == 800

    play(script, seed)


def test_records_without_a_key_go_round_batch_by_batch() -> None:
    async def script(world: ClientWorld) -> None:
        await world.create_topic("t", 4)
        async with world.producer(batch_size=500, linger_ms=60_000) as producer:
            deliveries = [await producer.send("t", b"v" * 50) for _ in range(400)]
            await producer.flush()
            placed = [(await each).partition for each in deliveries]
        assert set(placed) == {0, 1, 2, 3}
        changes = sum(one != other for one, other in itertools.pairwise(placed))
        assert changes <= 400 // ((500 - 61) // 71)

    play(script)


@pytest.mark.parametrize(
    ("record", "error"),
    [
        ({"value": "text"}, "value has to be bytes or None, not str: give a value_serializer"),
        ({"key": 5}, "key has to be bytes or None, not int"),
        ({"headers": [("h", "text")]}, "headers have to be pairs"),
        ({"headers": [(b"h", b"")]}, "headers have to be pairs"),
        ({"timestamp_ms": -1}, "-1 is no timestamp"),
    ],
)
def test_what_cannot_be_sent_is_said_at_once(record: dict[str, Any], error: str) -> None:
    async def script(world: ClientWorld) -> None:
        await world.create_topic("t")
        async with world.producer() as producer:
            await producer.send("t", b"before")
            with pytest.raises((TypeError, ValueError), match=error):
                await producer.send("t", **record)
            await producer.send("t", bytearray(b"after"), headers=[("h", memoryview(b"1"))])
        assert world.values("t") == [b"before", b"after"]

    play(script)


def test_a_record_fails_when_its_time_is_up_and_later_ones_do_not() -> None:
    async def script(world: ClientWorld) -> None:
        await world.create_topic("t")
        settings = {"delivery_timeout_ms": 3_000, "request_timeout_ms": 500, "linger_ms": 0}
        async with world.producer(**settings) as producer:
            await (await producer.send("t", b"first"))
            world.partition_off()
            late = await producer.send("t", b"late")
            began = world.now_ms()
            with pytest.raises(TimedOutError, match=r"delivery\.timeout\.ms"):
                await late
            assert 2_990 < world.now_ms() - began < 4_000
            world.heal()
            assert (await (await producer.send("t", b"next"))).offset >= 1
        assert [value for value in world.values("t") if value != b"late"] == [b"first", b"next"]

    play(script)


def test_one_that_is_too_large_does_not_hold_up_the_others() -> None:
    async def script(world: ClientWorld) -> None:
        await world.create_topic("t", configs={"max.message.bytes": "1000"})
        async with world.producer(batch_size=300, linger_ms=0) as producer:
            deliveries = [
                await producer.send("t", b"x" * 2_000 if number == 5 else b"%d" % number)
                for number in range(40)
            ]
            outcomes = await asyncio.gather(*[_outcome(each) for each in deliveries])
        assert [number for number, each in enumerate(outcomes) if isinstance(each, RefusedError)] == [5]
        assert world.values("t") == [b"%d" % number for number in range(40) if number != 5]

    play(script)


@pytest.mark.parametrize("settings", [{}, {"compression_type": "zstd"}, {"enable_idempotence": False}])
def test_a_batch_that_is_too_large_for_its_topic_is_split(settings: dict[str, Any]) -> None:
    async def script(world: ClientWorld) -> None:
        await world.create_topic("t", configs={"max.message.bytes": "1000"})
        in_flight = (
            {} if "enable_idempotence" not in settings else {"max_in_flight_requests_per_connection": 1}
        )
        rng = random.Random(3)
        async with world.producer(batch_size=8_000, linger_ms=20, **settings, **in_flight) as producer:
            values = [b"%d " % number + rng.randbytes(60) for number in range(400)]
            values[123] = rng.randbytes(3_000)
            deliveries = [await producer.send("t", value) for value in values]
            outcomes = await asyncio.gather(*[_outcome(each) for each in deliveries])
        refused = [number for number, each in enumerate(outcomes) if isinstance(each, RefusedError)]
        assert refused == [123]
        del values[123], outcomes[123]
        assert world.values("t") == values
        assert [each.offset for each in outcomes] == list(range(399))

    play(script)


async def _outcome(delivery: Any) -> Any:
    try:
        return await delivery
    except ClientError as error:
        return error


def test_topics_that_are_not_there() -> None:
    async def script(world: ClientWorld) -> None:
        async with world.producer(allow_auto_create_topics=False) as producer:
            with pytest.raises(NoSuchTopicError):
                await producer.send("nope", b"v")
        async with world.producer() as producer:
            assert (await (await producer.send("made", b"v"))).offset == 0
            with pytest.raises(ClientError, match=r"no partition 7: it has 0 to 0"):
                await producer.send("made", b"v", partition=7)
            with pytest.raises(RefusedError, match=r"max\.request\.size"):
                await producer.send("made", b"v" * 2_000_000)

    play(script)


@pytest.mark.parametrize("acks", ["0", "1"])
def test_without_idempotence(acks: str) -> None:
    async def script(world: ClientWorld) -> None:
        await world.create_topic("t")
        async with world.producer(acks=acks, enable_idempotence=False) as producer:
            found = await (await producer.send("t", b"v"))
            assert found.offset == (-1 if acks == "0" else 0)
        await world.until(lambda: world.log("t").log_end_offset == 1)

    play(script)


def test_interceptors_and_serializers() -> None:
    class Loud:
        def __init__(self) -> None:
            self.heard: list[Any] = []

        def on_send(self, topic: str, key: Any, value: Any, headers: Any) -> tuple[Any, Any, Any]:
            return key, value + "!", (*headers, ("by", b"loud"))

        def on_acknowledgement(self, metadata: RecordMetadata | None, error: BaseException | None) -> None:
            self.heard.append((metadata and metadata.offset, error))

    async def script(world: ClientWorld) -> None:
        await world.create_topic("t")
        loud = Loud()
        async with world.producer(value_serializer=str.encode, interceptors=[loud]) as producer:
            await (await producer.send("t", "hello"))
        assert loud.heard == [(0, None)]
        async with world.consumer(auto_offset_reset="earliest", value_deserializer=bytes.decode) as consumer:
            consumer.assign([("t", 0)])
            (row,) = await consumer.poll(10)
            assert (row.value, row.headers) == ("hello!", (("by", b"loud"),))

    play(script)


def test_a_record_that_waits_is_intercepted_and_serialized_once() -> None:
    class Stamp:
        def __init__(self) -> None:
            self.seen: list[str] = []

        def on_send(self, topic: str, key: Any, value: Any, headers: Any) -> tuple[Any, Any, Any]:
            self.seen.append(value)
            return key, value + "!", headers

        def on_acknowledgement(self, metadata: RecordMetadata | None, error: BaseException | None) -> None:
            pass

    async def script(world: ClientWorld) -> None:
        await world.create_topic("t")
        stamp, serialized, lacking = Stamp(), list[str](), list[Lacks]()

        def serializer(value: str) -> bytes:
            serialized.append(value)
            return value.encode()

        async with world.producer(
            buffer_memory=2_000, batch_size=500, value_serializer=serializer, interceptors=[stamp]
        ) as producer:
            obtain = producer.core.obtain

            async def noted(topic: str, lacks: Lacks, partition: int | None, deadline_ms: float) -> None:
                lacking.append(lacks)
                await obtain(topic, lacks, partition, deadline_ms)

            producer.core.obtain = noted
            for number in range(300):
                await producer.send("t", str(number))
        assert set(lacking) == set(Lacks), "nothing had to wait"
        assert stamp.seen == [str(number) for number in range(300)]
        assert serialized == [f"{number}!" for number in range(300)]
        assert world.values("t") == [text.encode() for text in serialized]

    play(script)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"enable.idempotence": True, "acks": "1"}, "acks: '1' does not go with enable.idempotence"),
        ({"enable.idempotence": True, "max.in.flight.requests.per.connection": 6}, "6 does not go with"),
        ({"delivery.timeout.ms": 100}, "at least linger.ms"),
        ({"linger": 5}, "did you mean linger.ms"),
        ({"acks": "two"}, "must be one of all"),
    ],
)
def test_settings_that_do_not_fit(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        producer_config({"bootstrap.servers": "a:1", **settings})


def test_idempotence_gives_way_where_it_was_not_asked_for() -> None:
    assert not producer_config({"bootstrap.servers": "a:1", "acks": "1"}).bool("enable.idempotence")
    assert producer_config({"bootstrap.servers": "a:1"}).bool("enable.idempotence")


def test_a_producer_id_is_waited_for_as_long_as_everything_else() -> None:
    """A controller that cannot write now hands out no ids; that is no reason to end a producer for good."""

    async def script(world: ClientWorld) -> None:
        await world.create_topic("t")
        world.machine.disk.faults.is_full = True
        async with world.producer(request_timeout_ms=1_000) as producer:
            delivery = await producer.send("t", b"v")
            await asyncio.sleep(10)
            assert not delivery.done()
            world.machine.disk.faults.is_full = False
            assert (await delivery).offset == 0

    play(script)


def test_a_broker_that_does_not_answer_is_asked_again_until_max_block_ms() -> None:
    async def script(world: ClientWorld) -> None:
        await world.create_topic("t")
        async with world.producer(request_timeout_ms=1_000, max_block_ms=30_000) as producer:
            world.machine.pause()
            world.world.scheduler.after(10, world.machine.resume)
            assert (await (await producer.send("t", b"v"))).offset == 0
        async with world.producer(request_timeout_ms=1_000, max_block_ms=5_000) as producer:
            world.machine.pause()
            began = world.now_ms()
            with pytest.raises(TimedOutError, match="did not answer"):
                await producer.send("t", b"v")
            assert 5_000 <= world.now_ms() - began < 7_000
            world.machine.resume()

    play(script)
