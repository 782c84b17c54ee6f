"""python -m bench.rebalances [--rounds N] [--only KIND...]: how long consumer groups take to settle, beside
Apache Kafka.

Members of stock clients share 100 partitions: ten join at once, an eleventh joins, one leaves, and where a
session is short enough to wait for its end, one is killed. Seconds until every partition has one owner and no
member has two more than another, with each broker's defaults. Before each step the group is left alone for a
few seconds, a little longer from round to round: a classic member can be told of a rebalance only when it
asks, which stock clients do for the first time three seconds after they joined. A JVM has had a consumer
before: loading its classes takes a second or more, whatever the broker does.
"""

import argparse
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from typing import ClassVar, Final, NamedTuple

from bench import loads
from bench.brokers import KAFKA_LIBS, Broker, Headrace, Kafka
from bench.rebalance_members import Java, Librdkafka, Members

PARTITIONS: Final = 100
MEMBERS: Final = 10
CALM_S: Final = 4.5
CALM_STEP_S: Final = 0.7
LONGEST_S: Final = 60.0


class Kind(NamedTuple):
    """A client with its settings."""

    members: type[Members]
    settings: dict[str, str]


RANGE: Final = {"partition.assignment.strategy": "range"}
COOPERATIVE: Final = {"partition.assignment.strategy": "cooperative-sticky"}
JAVAS: Final = "org.apache.kafka.clients.consumer."
SHORT_SESSION: Final = {"session.timeout.ms": "6000"}
CONSUMER: Final = {"group.protocol": "consumer"}

KINDS: Final = {
    "librdkafka, range": Kind(Librdkafka, RANGE),
    "librdkafka, range, session of 6 s": Kind(Librdkafka, RANGE | SHORT_SESSION),
    "librdkafka, cooperative-sticky": Kind(Librdkafka, COOPERATIVE),
    "librdkafka, KIP-848": Kind(Librdkafka, CONSUMER),
    "Java, range": Kind(Java, {"partition.assignment.strategy": JAVAS + "RangeAssignor"}),
    "Java, cooperative-sticky": Kind(
        Java, {"partition.assignment.strategy": JAVAS + "CooperativeStickyAssignor"}
    ),
    "Java, KIP-848": Kind(Java, CONSUMER),
}


class DefaultHeadrace(Headrace):
    settings: ClassVar[dict[str, str]] = {}


class DefaultKafka(Kafka):
    settings: ClassVar[dict[str, str]] = {}


def settle_s(group: Members, members: int) -> float:
    """Seconds until so many members share evenly; endless where they don't."""
    began = time.monotonic()
    while time.monotonic() < began + LONGEST_S:
        owned = list(group.owned.values())
        sizes = [len(each) for each in owned]
        together = set().union(*owned)
        is_shared = len(owned) == members and sum(sizes) == len(together) == PARTITIONS
        if is_shared and max(sizes) - min(sizes) <= 1:
            return time.monotonic() - began
        time.sleep(0.005)
    return float("inf")


def measure(broker: Broker, kind: Kind, name: str, calm_s: float) -> dict[str, float]:
    """One round on a broker that runs."""
    group = kind.members(broker, name, "shared", kind.settings)
    figures: dict[str, float] = {}
    try:
        for _ in range(MEMBERS):
            group.join()
        figures["ten join at once"] = settle_s(group, MEMBERS)
        time.sleep(calm_s)
        group.join()
        figures["an eleventh joins"] = settle_s(group, MEMBERS + 1)
        time.sleep(calm_s)
        group.leave(0)
        figures["one leaves"] = settle_s(group, MEMBERS)
        if isinstance(group, Librdkafka) and SHORT_SESSION.items() <= kind.settings.items():
            mortal = group.join_mortal()
            settle_s(group, MEMBERS + 1)
            time.sleep(calm_s)
            group.kill(mortal)
            figures["one is killed"] = settle_s(group, MEMBERS)
    finally:
        group.close()
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.rebalances", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS), metavar="KIND")
    options = parser.parse_args()
    if not KAFKA_LIBS.is_dir():
        print(
            f"bench: Apache Kafka's jars are not in {KAFKA_LIBS}: ./test --all fetches them", file=sys.stderr
        )
        return 2
    found: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    brokers: tuple[Callable[[], Broker], ...] = (DefaultHeadrace, DefaultKafka)
    for start in brokers:
        with start() as broker:
            loads.create(broker, "shared", PARTITIONS)
            measure(broker, KINDS["librdkafka, range"], "warm-up", 0.0)
            for kind in options.only:
                for number in range(options.rounds):
                    calm_s = CALM_S + number * CALM_STEP_S
                    figures = measure(broker, KINDS[kind], f"{kind} {number}", calm_s)
                    for case, seconds in figures.items():
                        found[kind, case][broker.name].append(seconds)
                        print(f"  {broker.name:9} {kind:34} {case:20} {seconds:6.2f} s", flush=True)
    print("| | | Kafka | headrace | ratio |\n|---|---|---|---|---|")
    for (kind, case), values in found.items():
        theirs, ours = statistics.median(values["kafka"]), statistics.median(values["headrace"])
        print(f"| {kind} | {case} | {theirs:.2f} | {ours:.2f} | {ours / theirs:.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
