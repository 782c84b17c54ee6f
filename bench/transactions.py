"""python -m bench.transactions [--rounds N]: what transactions cost, beside Apache Kafka.

One librdkafka producer writes transactions of 1,000 records of 100 bytes to six partitions, and as many
records without transactions: records a second, how much slower transactions are than plain idempotent writes,
and the milliseconds that a commit takes. Both brokers run at the same time and take turns, so that the
machine's moods hit both.
"""

import argparse
import statistics
import time
from collections import defaultdict
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.brokers import Broker, Headrace, Kafka

RECORDS: Final = 1_000
TRANSACTIONS: Final = 60
WARM_UP: Final = 20
PARTITIONS: Final = 6
PATIENCE_S: Final = 60
VALUE: Final = b"v" * 100


def make_topic(broker: Broker, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address})
    for done in admin.create_topics([NewTopic(name, PARTITIONS, 1)]).values():
        done.result(PATIENCE_S)


def write(producer: Producer, topic: str) -> None:
    for number in range(RECORDS):
        producer.produce(topic, VALUE, partition=number % PARTITIONS)
    producer.flush(PATIENCE_S)


def plain(broker: Broker, topic: str) -> dict[str, float]:
    producer = Producer(
        {"bootstrap.servers": broker.address, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
    )
    for _ in range(WARM_UP):
        write(producer, topic)
    began = time.perf_counter()
    for _ in range(TRANSACTIONS):
        write(producer, topic)
    seconds = time.perf_counter() - began
    return {"plain, records/s": RECORDS * TRANSACTIONS / seconds}


def transactional(broker: Broker, topic: str, name: str) -> dict[str, float]:
    producer = Producer(
        {"bootstrap.servers": broker.address, "transactional.id": name, "linger.ms": 5, "log_level": 0}
    )
    producer.init_transactions(PATIENCE_S)
    commits_ms: list[float] = []

    def transact() -> None:
        producer.begin_transaction()
        write(producer, topic)
        began = time.perf_counter()
        producer.commit_transaction(PATIENCE_S)
        commits_ms.append((time.perf_counter() - began) * 1000)

    for _ in range(WARM_UP):
        transact()
    commits_ms.clear()
    cpu_s, began = broker.cpu_s(), time.perf_counter()
    for _ in range(TRANSACTIONS):
        transact()
    seconds = time.perf_counter() - began
    cuts = statistics.quantiles(commits_ms, n=100)
    return {
        "transactions, records/s": RECORDS * TRANSACTIONS / seconds,
        "commit p50, ms": cuts[49],
        "commit p99, ms": cuts[98],
        "broker CPU ms a transaction": (broker.cpu_s() - cpu_s) * 1000 / TRANSACTIONS,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    figures: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with Headrace() as headrace, Kafka() as kafka:
        brokers = {"headrace": headrace, "Kafka": kafka}
        for name, broker in brokers.items():
            make_topic(broker, "bench")
            print(f"{name} serves at {broker.address}")
        for number in range(rounds):
            for name, broker in brokers.items():
                found = plain(broker, "bench") | transactional(broker, "bench", f"round-{number}")
                found["plain over transactions"] = (
                    found["plain, records/s"] / found["transactions, records/s"]
                )
                for kind, value in found.items():
                    figures[kind][name].append(value)
            print(f"round {number + 1} of {rounds} done", flush=True)
        for kind, by_broker in figures.items():
            ours, theirs = (statistics.median(by_broker[name]) for name in brokers)
            figure = f"headrace {ours:12,.2f}   Kafka {theirs:12,.2f}   ratio {ours / theirs:.2f}"
            print(f"{kind:30} {figure}", flush=True)


if __name__ == "__main__":
    main()
