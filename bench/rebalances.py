"""python -m bench.rebalances [--rounds N]: how long consumer groups take to settle, beside Apache Kafka.

librdkafka members of the consumer protocol (KIP-848) share 100 partitions: ten join at once, an eleventh
joins, one leaves. Seconds until every partition has one owner and no member has two more than another, with
each broker's defaults; a second passes between the steps. The CPU is the broker's, over the whole round and
over five calm seconds with eleven members.
"""

import argparse
import statistics
import sys
import threading
import time
from collections import defaultdict

from confluent_kafka import Consumer

from bench import loads
from bench.brokers import KAFKA_LIBS, Broker, Headrace, Kafka

PARTITIONS = 100
MEMBERS = 10
CALM_S = 5.0
LONGEST_S = 60.0


class Group:
    """Members on threads of their own; `owned` is what each has now."""

    def __init__(self, broker: Broker, name: str, topic: str) -> None:
        self._settings = {
            "bootstrap.servers": broker.address,
            "group.id": name,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
        }
        self._topic = topic
        self._ends: list[threading.Event] = []
        self._threads: list[threading.Thread] = []
        self.owned: dict[int, set[int]] = {}

    def join(self) -> None:
        number, end = len(self._ends), threading.Event()
        self._ends.append(end)
        self._threads.append(threading.Thread(target=self._consume, args=(number, end)))
        self._threads[-1].start()

    def _consume(self, number: int, end: threading.Event) -> None:
        consumer = Consumer(self._settings)
        consumer.subscribe([self._topic])
        while not end.is_set():
            consumer.poll(0.02)
            self.owned[number] = {each.partition for each in consumer.assignment()}
        self.owned.pop(number, None)
        consumer.close()

    def leave(self, number: int) -> None:
        self._ends[number].set()

    def close(self) -> None:
        for end in self._ends:
            end.set()
        for thread in self._threads:
            thread.join()

    def settle_s(self, members: int) -> float:
        """Seconds until so many members share evenly; endless where they don't."""
        began = time.monotonic()
        while time.monotonic() < began + LONGEST_S:
            owned = list(self.owned.values())
            sizes = [len(each) for each in owned]
            together = set().union(*owned)
            is_shared = len(owned) == members and sum(sizes) == len(together) == PARTITIONS
            if is_shared and max(sizes) - min(sizes) <= 1:
                return time.monotonic() - began
            time.sleep(0.005)
        return float("inf")


def measure(broker: Broker, topic: str, name: str) -> dict[str, float]:
    """One round on a broker that runs."""
    group = Group(broker, name, topic)
    figures: dict[str, float] = {}
    cpu_s = broker.cpu_s()
    for _ in range(MEMBERS):
        group.join()
    figures["ten join, s"] = group.settle_s(MEMBERS)
    time.sleep(1)
    group.join()
    figures["an eleventh joins, s"] = group.settle_s(MEMBERS + 1)
    calm_cpu_s = broker.cpu_s()
    time.sleep(CALM_S)
    figures["calm, CPU ms a second"] = (broker.cpu_s() - calm_cpu_s) / CALM_S * 1000
    group.leave(0)
    figures["one leaves, s"] = group.settle_s(MEMBERS)
    group.close()
    figures["the round, CPU s"] = broker.cpu_s() - cpu_s
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.rebalances", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if not KAFKA_LIBS.is_dir():
        print(
            f"bench: Apache Kafka's jars are not in {KAFKA_LIBS}: ./test --all fetches them", file=sys.stderr
        )
        return 2
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for kind in (Headrace, Kafka):
        with kind() as broker:
            loads.create(broker, "shared", PARTITIONS)
            measure(broker, "shared", "warm-up")
            for number in range(options.rounds):
                for name, value in measure(broker, "shared", f"group-{number}").items():
                    found[name][broker.name].append(value)
    print("| | headrace | kafka | ratio |\n|---|---|---|---|")
    for name, values in found.items():
        ours, theirs = statistics.median(values["headrace"]), statistics.median(values["kafka"])
        print(f"| {name} | {ours:.2f} | {theirs:.2f} | {theirs / ours if ours else float('inf'):.1f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
