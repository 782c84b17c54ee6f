"""python -m bench.clients [--rows N] [--rounds N] [--bootstrap HOST:PORT]: our clients beside others, one
broker, one run.

Every client writes the same number of records of 100 bytes to a topic of its own (five times as many where
they come in tables) and reads them back, as a Python program would: one call for each record written, one
object for each record read, or a table. Settings are each client's defaults, but that all are idempotent
where they can be and linger for 5 ms, as Kafka's own producer does; aiokafka gets that one's batches of 16
KiB, too (librdkafka fills up to 1 MB). No groups and no commits. The broker is headrace from this checkout
unless another is named; before the first client comes a short run of ours that does not count, for what a
broker only loads when it is used. Figures are medians over the rounds, and what was written is on the disk
before the next step: a kernel that writes behind slows whoever comes next. CPU is that of this process and of
the broker for each row, which tells more than the rate on a machine that others use as well.
"""

import argparse
import asyncio
import math
import os
import statistics
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from bench.brokers import Headrace
from bench.machine import ready_memory
from headrace.base.ids import TopicPartition
from headrace.clients import Admin, AsyncConsumer, AsyncProducer, Consumer, Producer
from headrace.records.columns.decode import arrow_from_batches
from headrace.records.columns.encode import batches_from_arrow
from headrace.records.kernels.choice import load_compiled

VALUE = b"x" * 100
MEMORY_GB = 1.5
GROUP_FREE = {"auto_offset_reset": "earliest"}


@dataclass(frozen=True)
class Load:
    """What every client does."""

    bootstrap: str
    topic: str
    rows: int


Step = Callable[[Load], None]


def ours_produce(load: Load) -> None:
    with Producer(bootstrap_servers=load.bootstrap) as producer:
        send = producer.send
        for _ in range(load.rows):
            send(load.topic, VALUE)


def ours_consume(load: Load) -> None:
    with Consumer(bootstrap_servers=load.bootstrap, **GROUP_FREE) as consumer:
        consumer.assign([TopicPartition(load.topic, 0)])
        left = load.rows
        while left > 0:
            for record in consumer.poll(10.0):
                assert record.value is not None
                left -= 1


def ours_async_produce(load: Load) -> None:
    async def produce() -> None:
        async with AsyncProducer(bootstrap_servers=load.bootstrap) as producer:
            for number in range(load.rows):
                await producer.send(load.topic, VALUE)
                if not number % 500:
                    await asyncio.sleep(0)

    asyncio.run(produce())


def ours_async_consume(load: Load) -> None:
    async def consume() -> None:
        async with AsyncConsumer(bootstrap_servers=load.bootstrap, **GROUP_FREE) as consumer:
            consumer.assign([TopicPartition(load.topic, 0)])
            left = load.rows
            while left > 0:
                for record in await consumer.poll(10.0):
                    assert record.value is not None
                    left -= 1

    asyncio.run(consume())


def arrow_produce(load: Load) -> None:
    import pyarrow

    part = pyarrow.table({"value": [VALUE] * 50_000})
    with Producer(bootstrap_servers=load.bootstrap) as producer:
        for first in range(0, load.rows, part.num_rows):
            producer.send_arrow(load.topic, part.slice(0, min(part.num_rows, load.rows - first)))


def arrow_consume(load: Load) -> None:
    settings = {"max_partition_fetch_bytes": 2 << 20, **GROUP_FREE}
    with Consumer(bootstrap_servers=load.bootstrap, **settings) as consumer:
        consumer.assign([TopicPartition(load.topic, 0)])
        left = load.rows
        while left > 0:
            left -= consumer.poll_arrow(10.0).num_rows


def confluent_produce(load: Load) -> None:
    from confluent_kafka import Producer as Theirs

    producer = Theirs({"bootstrap.servers": load.bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for _ in range(load.rows):
        while True:
            try:
                producer.produce(load.topic, VALUE)
                break
            except BufferError:
                producer.poll(0.01)
    producer.flush()


def confluent_consume(load: Load) -> None:
    from confluent_kafka import Consumer as Theirs
    from confluent_kafka import TopicPartition as Place

    settings = {"bootstrap.servers": load.bootstrap, "group.id": "bench", "auto.offset.reset": "earliest"}
    consumer = Theirs({**settings, "enable.auto.commit": False})
    consumer.assign([Place(load.topic, 0, 0)])
    left = load.rows
    while left > 0:
        for message in consumer.consume(500, 10.0):
            assert message.value() is not None
            left -= 1
    consumer.close()


def kafka_python_produce(load: Load) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=load.bootstrap, linger_ms=5)
    for _ in range(load.rows):
        producer.send(load.topic, VALUE)
    producer.flush()
    producer.close()


def kafka_python_consume(load: Load) -> None:
    from kafka import KafkaConsumer
    from kafka import TopicPartition as Place

    consumer = KafkaConsumer(bootstrap_servers=load.bootstrap, auto_offset_reset="earliest", group_id=None)
    consumer.assign([Place(load.topic, 0)])
    left = load.rows
    while left > 0:
        for records in consumer.poll(10_000).values():
            for record in records:
                assert record.value is not None
                left -= 1
    consumer.close()


def aiokafka_produce(load: Load) -> None:
    from aiokafka import AIOKafkaProducer

    async def produce() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=load.bootstrap, linger_ms=5, enable_idempotence=True, max_batch_size=16384
        )
        await producer.start()
        for _ in range(load.rows):
            await producer.send(load.topic, VALUE)
        await producer.stop()

    asyncio.run(produce())


def aiokafka_consume(load: Load) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka import TopicPartition as Place

    async def consume() -> None:
        consumer = AIOKafkaConsumer(bootstrap_servers=load.bootstrap, auto_offset_reset="earliest")
        await consumer.start()
        consumer.assign([Place(load.topic, 0)])
        left = load.rows
        while left > 0:
            for records in (await consumer.getmany(timeout_ms=10_000, max_records=500)).values():
                for record in records:
                    assert record.value is not None
                    left -= 1
        await consumer.stop()

    asyncio.run(consume())


CLIENTS: dict[str, tuple[Step, Step]] = {
    "kafka-python": (kafka_python_produce, kafka_python_consume),
    "aiokafka": (aiokafka_produce, aiokafka_consume),
    "confluent-kafka": (confluent_produce, confluent_consume),
    "headrace": (ours_produce, ours_consume),
    "headrace async": (ours_async_produce, ours_async_consume),
    "headrace arrow": (arrow_produce, arrow_consume),
}


def warm_up() -> None:
    """What a long-running program has paid for: compiled kernels, pyarrow."""
    import pyarrow

    load_compiled()
    encoded = batches_from_arrow(pyarrow.table({"value": [VALUE]}))
    assert arrow_from_batches(encoded, topic="t", partition=0).num_rows == 1


BrokerCpu = Callable[[], float]


class Figures(NamedTuple):
    """Rows a second, and microseconds of CPU for each: of this process, and of the broker."""

    rows_s: float
    cpu_us: float
    broker_cpu_us: float

    def __str__(self) -> str:
        return f"{self.rows_s:15,.0f} {self.cpu_us:11.3f} {self.broker_cpu_us:11.3f}"


def measure(step: Step, load: Load, broker_cpu_s: BrokerCpu) -> Figures:
    ready_memory(MEMORY_GB)
    broker, own, began = broker_cpu_s(), time.process_time(), time.perf_counter()
    step(load)
    took_s, own, broker = time.perf_counter() - began, time.process_time() - own, broker_cpu_s() - broker
    return Figures(load.rows / took_s, own / load.rows * 1e6, broker / load.rows * 1e6)


def medians(rounds: list[Figures]) -> Figures:
    return Figures(*(statistics.median(column) for column in zip(*rounds, strict=True)))


def new_load(bootstrap: str, rows: int) -> Load:
    load = Load(bootstrap, f"bench-{uuid.uuid4().hex[:8]}", rows)
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(load.topic, partitions=1)
    return load


def run(bootstrap: str, names: list[str], rows: int, rounds: int, broker_cpu_s: BrokerCpu) -> None:
    warming = new_load(bootstrap, 50_000)
    for step in CLIENTS["headrace"]:
        step(warming)
    print(f"{rows} records of {len(VALUE)} bytes, one partition, acks=all, idempotent where the client can")
    head = "".join(
        f" {what:>15} {'CPU µs/row':>11} {'broker':>11}" for what in ("produce rows/s", "consume rows/s")
    )
    print(f"{'client':16}{head}")
    for name in names:
        loads = [new_load(bootstrap, rows * (5 if "arrow" in name else 1)) for _ in range(rounds)]
        steps = [[measure(step, load, broker_cpu_s) for step in CLIENTS[name]] for load in loads]
        produced, consumed = (medians(list(each)) for each in zip(*steps, strict=True))
        print(f"{name:16} {produced} {consumed}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.clients", description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="a broker that runs already")
    parser.add_argument("--only", nargs="+", choices=CLIENTS, default=list(CLIENTS))
    options = parser.parse_args()
    warm_up()
    if options.bootstrap:
        run(options.bootstrap, options.only, options.rows, options.rounds, lambda: math.nan)
        return 0
    with Headrace() as broker:
        run(broker.address, options.only, options.rows, options.rounds, broker.cpu_s)
    return 0


if __name__ == "__main__":
    # Others' clients may leave threads behind.
    code = main()
    sys.stdout.flush()
    os._exit(code)
