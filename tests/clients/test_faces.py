"""Both faces over real sockets, with headrace in this process and with Apache Kafka."""

import asyncio
import gc
import random
import re
import signal
import subprocess
import sys
import threading
import uuid
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.base.ids import TopicPartition
from headrace.clients import (
    Admin,
    AsyncConsumer,
    AsyncProducer,
    Consumer,
    ConsumerRecord,
    Producer,
    RebalanceListener,
)
from headrace.clients.errors import ClientError, ClosedError, WakeupError
from headrace.clients.internals.background import Background, in_caller
from tests.compat.stock_kafka import EITHER, running_either

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "group.consumer.heartbeat.interval.ms": "1000"}
SETTINGS |= {"group.consumer.min.heartbeat.interval.ms": "500"}


@pytest.fixture(scope="module", params=EITHER)
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_either(request.param, tmp_path_factory, SETTINGS) as bootstrap:
        yield bootstrap


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(name, partitions=4)
    return name


def drain(consumers: list[Consumer], until: Callable[[], bool], seen: list[ConsumerRecord]) -> None:
    """Poll in turn until something holds."""
    for _ in range(1_500):
        if until():
            return
        for consumer in consumers:
            seen += consumer.poll(0.05)
    raise AssertionError([each.assignment for each in consumers])


def test_there_and_back(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap, compression_type="zstd") as producer:
        deliveries = [producer.send(topic, b"%d" % number, key=b"%d" % (number % 7)) for number in range(500)]
        placed = [each.result(30) for each in deliveries]
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(consumer.partitions_for(topic))
        seen: list[ConsumerRecord] = []
        drain([consumer], lambda: len(seen) == 500, seen)
        assert {(row.partition, row.offset): row.value for row in seen} == {
            (each.partition, each.offset): b"%d" % number for number, each in enumerate(placed)
        }
        assert sum(consumer.end_offsets(consumer.assignment).values()) == 500


def test_there_and_back_on_a_loop(bootstrap: str, topic: str) -> None:
    async def script() -> None:
        async with AsyncProducer(bootstrap_servers=bootstrap) as producer:
            deliveries = [await producer.send(topic, b"%d" % number, partition=1) for number in range(500)]
            assert [(await each).offset for each in deliveries] == list(range(500))
        async with AsyncConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, 1)])
            offsets = []
            async for record in consumer:
                offsets.append(record.offset)
                if len(offsets) == 500:
                    break
            assert offsets == list(range(500))

    asyncio.run(asyncio.wait_for(script(), 60))


@pytest.mark.parametrize(
    "settings",
    [
        {"partition_assignment_strategy": "range"},
        {"partition_assignment_strategy": "cooperative-sticky"},
        {"group_protocol": "consumer"},
    ],
    ids=["range", "cooperative", "kip-848"],
)
def test_a_group_of_two(bootstrap: str, topic: str, settings: dict[str, Any]) -> None:
    options = {"group_id": topic, "auto_offset_reset": "earliest", "heartbeat_interval_ms": 300, **settings}
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(200):
            producer.send(topic, b"%d" % number, partition=number % 4)
    threads: set[threading.Thread] = set()

    class Notes(RebalanceListener):
        def on_assigned(self, partitions: list[TopicPartition]) -> None:
            threads.add(threading.current_thread())
            assert set(first.assignment) >= set(partitions)  # it may be used from here

    seen: list[ConsumerRecord] = []
    first = Consumer(bootstrap_servers=bootstrap, **options)
    with first:
        first.subscribe([topic], listener=Notes())
        drain([first], lambda: len(seen) == 200, seen)
        with Consumer(bootstrap_servers=bootstrap, **options) as second:
            second.subscribe([topic])
            drain([first, second], lambda: len(first.assignment) == len(second.assignment) == 2, seen)
            first.commit()
        drain([first], lambda: len(first.assignment) == 4, seen)
        drain([first], lambda: len(first.positions()) == 4, seen)
        assert all(place.offset == 50 for place in first.committed(first.assignment).values())
    assert len(seen) == 200  # commits at every change: nothing twice
    assert threads == {threading.current_thread()}


def test_many_threads_share_a_producer(bootstrap: str, topic: str) -> None:
    """Every record is waited for at once, so that no batch can begin unseen by the sender."""
    failures: list[BaseException] = []
    with Producer(bootstrap_servers=bootstrap, linger_ms=2) as producer:

        def work(partition: int) -> None:
            try:
                for number in range(100):
                    assert (
                        producer.send(topic, b"%d" % number, partition=partition).result(30).offset == number
                    )
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(partition,)) for partition in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures


def test_polls_in_the_callers_thread_keep_to_the_position(bootstrap: str, topic: str) -> None:
    place = TopicPartition(topic, 2)
    with Producer(bootstrap_servers=bootstrap, batch_size=500) as producer:
        for number in range(1_000):
            producer.send(topic, b"%d" % number, partition=2)
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", max_poll_records=7) as consumer:
        consumer.assign([place])
        rng = random.Random(1)
        offset, steps = 0, 0
        while offset < 1_000:
            rows = consumer.poll(30)
            assert [(row.offset, row.value) for row in rows] == [
                (offset + at, b"%d" % (offset + at)) for at in range(len(rows))
            ]
            offset += len(rows)
            assert 0 < len(rows) <= 7
            assert consumer.positions() == {place: offset}
            steps += 1
            if steps < 300 and rng.random() < 0.1:
                offset = rng.randrange(900)
                consumer.seek(place, offset)
            elif rng.random() < 0.1:
                consumer.pause(place)
                assert consumer.poll(0.0) == []
                consumer.resume(place)
        consumer.wakeup()
        with pytest.raises(WakeupError):
            consumer.poll(30)


def test_a_wakeup_from_another_thread(bootstrap: str, topic: str) -> None:
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.position(TopicPartition(topic, 0))
        waker = threading.Timer(0.05, consumer.wakeup)
        waker.start()
        with pytest.raises(WakeupError):
            consumer.poll(60)
        waker.join()


def test_nothing_goes_after_the_end(bootstrap: str, topic: str) -> None:
    producer = Producer(bootstrap_servers=bootstrap)
    delivery = producer.send(topic, b"v")
    producer.close()
    producer.close()
    assert delivery.result(0).offset >= 0
    with pytest.raises(ClosedError):
        producer.send(topic, b"v")


def test_an_interrupt_loses_nothing_that_was_taken(bootstrap: str, topic: str) -> None:
    """Ctrl-C while sending: what `send` has returned for is written when the `with` block is left."""
    program = f"""
from headrace.clients import Producer
sent = 0
try:
    with Producer(bootstrap_servers={bootstrap!r}, linger_ms=100) as producer:
        while True:
            producer.send({topic!r}, b"%d" % sent, partition=0)
            sent += 1
            if sent == 1000:
                print("going", flush=True)
except KeyboardInterrupt:
    print("sent", sent, flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "going\n"
    process.send_signal(signal.SIGINT)
    found = re.fullmatch(r"sent (\d+)\n", process.communicate(timeout=60)[0])
    assert found
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        end = consumer.end_offsets([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]
    assert end - int(found[1]) in (0, 1)  # the interrupt may fall between taking one and counting it


def test_the_caller_does_what_belongs_to_it() -> None:
    background = Background("test")

    async def work() -> list[Any]:
        ident = await in_caller(threading.get_ident)
        nested = await in_caller(lambda: background.run(asyncio.sleep, 0, "nested"))
        with pytest.raises(ZeroDivisionError):
            await in_caller(lambda: 1 // 0)
        return [ident, nested]

    try:
        assert background.run(work) == [threading.get_ident(), "nested"]
        with pytest.raises(KeyError):
            background.call({}.__getitem__, "nothing")
    finally:
        background.close()


def test_an_interrupt_at_any_step_leaves_no_coroutine_that_nobody_awaits() -> None:
    """Else Python warns of it on stderr, long after."""
    background = Background("test")
    made: list[bool] = []

    async def work() -> None:
        made.append(True)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    loop = background.loop
    background.loop = SimpleNamespace(is_closed=lambda: False, call_soon_threadsafe=interrupted)  # type: ignore
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            with pytest.raises(KeyboardInterrupt):
                background.run(work)
            gc.collect()
    finally:
        background.loop = loop
        background.close()
    assert not made
    assert not [each for each in warned if "never awaited" in str(each.message)]


def test_arguments_that_do_not_fit_are_the_callers_error() -> None:
    background = Background("test")
    try:
        with pytest.raises(TypeError, match="unexpected keyword"):
            background.run(asyncio.sleep, 0, "nothing", later=True)
    finally:
        background.close()


def client_threads() -> set[threading.Thread]:
    """Those that clients have: a cluster in this process begins and ends others at any time."""
    names = {"headrace-admin", "headrace-consumer", "headrace-producer"}
    return {each for each in threading.enumerate() if each.name in names}


@pytest.mark.parametrize("kind", [Admin, Consumer, Producer])
def test_a_client_that_cannot_be_made_leaves_no_thread(kind: Any) -> None:
    before = set(threading.enumerate())
    with pytest.raises(ClientError, match="give HOST:PORT"):
        kind(bootstrap_servers="host:port")
    assert not client_threads() - before


def test_no_thread_is_left_behind(bootstrap: str, topic: str, tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"v")
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.poll(0.01)
    assert not client_threads() - before
