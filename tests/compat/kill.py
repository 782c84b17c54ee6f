"""A broker killed again and again under load: what it acknowledged is there, once, and in order.

Idempotent producers of librdkafka send numbered records to several partitions and retry by themselves. In
every round the broker is killed with SIGKILL when a random number of records has been acknowledged, so that
requests are under way, and started again on the same port and files. A group's commits must survive too.

    python -m tests.compat.kill --rounds 100 [--seed N]      the long form; test_kill.py runs the short one
"""

import argparse
import random
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as Place

from tests.compat import brokers
from tests.compat.brokers import Broker
from tests.compat.clients.confluent import Confluent
from tests.compat.clients.face import Record, eventually

TOPIC = "kill"
GROUP = "kill"
PARTITIONS = 4
PRODUCERS = 2
UNACKNOWLEDGED_MAX = 500  # of each producer, so that a kill always meets requests under way
ROUND_SECONDS_MAX = 120.0


@dataclass
class Load:
    """Producers that run until told to stop, and what became of every record."""

    bootstrap: str
    acknowledged: dict[bytes, tuple[int, int]] = field(default_factory=dict)  # value: partition, offset
    failures: list[str] = field(default_factory=list)
    sent: int = 0

    def __post_init__(self) -> None:
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._produce, args=(at,)) for at in range(PRODUCERS)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Sends nothing new, and waits for the answers that are due."""
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _produce(self, producer_number: int) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "message.timeout.ms": int(ROUND_SECONDS_MAX * 1000),
                "reconnect.backoff.max.ms": 500,
                "retry.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        number = 0
        while not self._is_over.is_set():
            if len(producer) >= UNACKNOWLEDGED_MAX:
                producer.poll(0.1)
                continue
            value = b"%d/%d" % (producer_number, number)
            producer.produce(TOPIC, value, partition=number % PARTITIONS, on_delivery=self._note)
            producer.poll(0)
            number += 1
        left = producer.flush(ROUND_SECONDS_MAX)
        if left:
            self.failures.append(f"producer {producer_number}: {left} records were never answered")
        self.sent += number

    def _note(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(f"{message.value()!r}: {error}")
        else:
            self.acknowledged[message.value()] = (message.partition(), message.offset())


def run(broker: Broker, *, rounds: int, seed: int, say: bool = False) -> None:
    """Starts the broker, kills it as often as asked, checks everything, and leaves it running."""
    chance = random.Random(seed)
    broker.start()
    Confluent(broker.bootstrap).create_topic(TOPIC, PARTITIONS, {})
    load = Load(broker.bootstrap)
    try:
        for at in range(rounds):
            goal = len(load.acknowledged) + chance.randrange(1, 4000)
            eventually(
                lambda goal=goal: len(load.acknowledged) >= goal,
                "records to be acknowledged",
                ROUND_SECONDS_MAX,
            )
            _commit(broker, at)
            broker.kill()
            started = time.monotonic()
            broker.start()
            took = time.monotonic() - started
            _check_commit(broker, at)
            if say:
                print(
                    f"round {at + 1}: {len(load.acknowledged)} acknowledged, ready after {took:.2f} s",
                    flush=True,
                )
        goal = len(load.acknowledged) + 1000
        eventually(lambda: len(load.acknowledged) >= goal, "records to be acknowledged", ROUND_SECONDS_MAX)
    finally:
        load.stop()
    assert not load.failures, f"{len(load.failures)} records failed, first: {load.failures[:3]}"
    assert len(load.acknowledged) == load.sent
    _check_records(broker, load)


def _commit(broker: Broker, offset: int) -> None:
    places = [Place(TOPIC, at, offset) for at in range(PARTITIONS)]
    _ask_coordinator(broker, lambda consumer: consumer.commit(offsets=places, asynchronous=False))


def _check_commit(broker: Broker, offset: int) -> None:
    places = [Place(TOPIC, at) for at in range(PARTITIONS)]
    found = _ask_coordinator(broker, lambda consumer: consumer.committed(places, timeout=5))
    offsets = {each.partition: each.offset for each in found}
    assert offsets == dict.fromkeys(range(PARTITIONS), offset), f"commits were lost: {offsets}, not {offset}"


def _ask_coordinator(broker: Broker, ask: Callable[[Consumer], list[Place]]) -> list[Place]:
    """It may still be coming up when the broker is ready: then it says so, and is asked again."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": GROUP, "log_level": 0})

    def answer() -> list[Place] | None:
        try:
            return ask(consumer)
        except KafkaException:
            return None

    try:
        return eventually(answer, "the group's coordinator")
    finally:
        consumer.close()


def _check_records(broker: Broker, load: Load) -> None:
    client = Confluent(broker.bootstrap)
    records = client.consume(TOPIC, {at: end for at, (_, end) in client.bounds(TOPIC).items()})
    found = {record.value: (record.partition, record.offset) for record in records}
    assert len(found) == len(records), f"{len(records) - len(found)} records are there twice"
    lost = [value for value, place in load.acknowledged.items() if found.get(value) != place]
    assert not lost, f"{len(lost)} acknowledged records are not where they were said to be, first: {lost[:5]}"
    _check_order(records)


def _check_order(records: list[Record]) -> None:
    """Numbers of one producer rise in every partition, without a gap, and offsets too."""
    last_number: dict[tuple[int, bytes], int] = {}
    next_offset: dict[int, int] = defaultdict(int)
    for record in records:
        assert record.value is not None
        producer, _, number = record.value.partition(b"/")
        before = last_number.get((record.partition, producer), record.partition - PARTITIONS)
        assert int(number) == before + PARTITIONS, f"{record} follows {before} of the same producer"
        assert record.offset == next_offset[record.partition], f"a gap before {record}"
        last_number[record.partition, producer] = int(number)
        next_offset[record.partition] = record.offset + 1


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.compat.kill", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    chosen = parser.parse_args()
    print(f"{chosen.rounds} rounds with --seed {chosen.seed}", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="kill-") as folder,
        brokers.under_test(Path(folder)) as broker,
    ):
        run(broker, rounds=chosen.rounds, seed=chosen.seed, say=True)
        broker.stop()
    print("everything acknowledged is there, once, and in order")


if __name__ == "__main__":
    main()
