"""python -m bench.share [--quick] [--rounds N] [--only NAME...] [--members N...]: queues beside Apache Kafka.

Java's KafkaShareConsumer takes 100 B and 1 KB records out of four partitions, with 1, 4 and 16 members, which
have all joined before: accepted in batches by the next poll (implicit), each by itself (explicit, the next
poll carries that), and each committed before the next one is looked at (committed; a request for each). What
is fetched while members join does not count: measured are the last two thirds. Then from send to a worker's
hands at 1,000 records a second, and what a broker keeps for a million records that are held (a broker of its
own, with the most locks that a partition may have). The broker's CPU is per million records. Kafka and
headrace run side by side and take turns, so that the machine's moods hit both; the other one is idle then.
"""

import argparse
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import ClassVar, Final, NamedTuple

from bench import loads
from bench.brokers import KAFKA_LIBS, Broker, Headrace, Kafka
from bench.machine import end_tidily
from bench.report import as_markdown, at_least, at_most
from bench.share_members import ShareMembers
from bench.share_state import SETTINGS, held

Note = Callable[[str, str, loads.Figures], None]

PARTITIONS: Final = 4
SIZES: Final = {"100 B": 100, "1 KB": 1000}
MEMBERS: Final = (1, 4, 16)
RECORDS: Final = {100: 3_000_000, 1000: 600_000}
COMMITTED: Final = 50_000
WARM_UP: Final = 1_000_000
RATE: Final = 1000
LATENCY_S: Final = 60
HELD: Final = 1_000_000
STEPS: Final = ("throughput", "committed", "latency", "state")

GOALS: Final = {
    "records_s": at_least(3),
    "cpu_s_per_million": at_most(1 / 4),
    "end_to_end_p99_ms": at_most(1 / 2),
}
"""For every step that has such a figure."""

ONE_NODE: Final = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


class ShareHeadrace(Headrace):
    settings: ClassVar[dict[str, str]] = {**Broker.settings, **ONE_NODE}


class ShareKafka(Kafka):
    settings: ClassVar[dict[str, str]] = {**Broker.settings, **ONE_NODE}


class HoldingHeadrace(Headrace):
    settings: ClassVar[dict[str, str]] = {**ShareHeadrace.settings, **SETTINGS}


class HoldingKafka(Kafka):
    settings: ClassVar[dict[str, str]] = {**ShareKafka.settings, **SETTINGS}


class Case(NamedTuple):
    """How records are taken."""

    mode: str
    size_name: str
    members: int
    count: int

    @property
    def title(self) -> str:
        return f"{self.mode}, {self.size_name}, {self.members} member" + "s" * (self.members > 1)


class Side(NamedTuple):
    """A broker with its queue's clients."""

    broker: Broker
    members: ShareMembers

    def take(self, name: str, case: Case) -> loads.Figures:
        size = SIZES[case.size_name]
        loads.create(self.broker, name, PARTITIONS)
        self.members.fill(name, size=size, count=case.count)
        return self.members.read(name, name, case.mode, members=case.members, count=case.count)


def cases(scale: float, steps: list[str], members: list[int]) -> Iterator[Case]:
    for size_name, size in SIZES.items():
        for number in members:
            count = int(RECORDS[size] * scale)
            if "throughput" in steps:
                yield Case("implicit", size_name, number, count)
                yield Case("explicit", size_name, number, count)
            if "committed" in steps:
                yield Case("committed", size_name, number, int(COMMITTED * scale))


def take_turns(options: argparse.Namespace, scale: float, note: Note) -> None:
    """One round of what both brokers do in turns. Their topics stay until it is over."""
    with ExitStack() as stack:
        sides = []
        for kind in (ShareHeadrace, ShareKafka):
            broker = stack.enter_context(kind())
            members = ShareMembers(broker)
            stack.callback(members.close)
            sides.append(Side(broker, members))
        for side in sides:
            for mode in ("implicit", "explicit"):
                side.take(f"warm-{mode}", Case(mode, "100 B", 4, int(WARM_UP * scale)))
        for number, case in enumerate(cases(scale, options.only, options.members)):
            for side in sides:
                note(case.title, side.broker.name, side.take(f"queue-{number}", case))
        if "latency" in options.only:
            for side in sides:
                loads.create(side.broker, "latency", PARTITIONS)
                figures = side.members.latency(
                    "latency", "latency", members=4, rate=RATE, seconds=LATENCY_S * scale
                )
                note(f"a queue at {RATE:,} records/s", side.broker.name, figures)


def keep_state(scale: float, note: Note) -> None:
    count = int(HELD * scale)
    for kind in (HoldingHeadrace, HoldingKafka):
        with kind() as broker:
            note(f"{count:,} records held", broker.name, held(broker, count))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.share", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the load, one round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=STEPS, default=list(STEPS), help="just these steps")
    parser.add_argument("--members", nargs="+", type=int, default=list(MEMBERS))
    options = parser.parse_args()
    if not KAFKA_LIBS.is_dir():
        print(
            f"bench: Apache Kafka's jars are not in {KAFKA_LIBS}: ./test --all fetches them", file=sys.stderr
        )
        return 2
    end_tidily()
    scale, rounds = (0.1, 1) if options.quick else (1.0, options.rounds)
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))

    def note(step: str, broker: str, figures: loads.Figures) -> None:
        for name, value in figures.items():
            found[f"{step} | {name}"][broker].append(value)
        shown = "  ".join(f"{name} {value:,.2f}" for name, value in figures.items())
        print(f"  {broker:9} {step:32} {shown}", flush=True)

    for _ in range(rounds):
        if set(options.only) != {"state"}:
            take_turns(options, scale, note)
        if "state" in options.only:
            keep_state(scale, note)
    medians = {
        step: {name: statistics.median(values) for name, values in by_broker.items()}
        for step, by_broker in found.items()
    }
    goals = {step: GOALS[unit] for step in found if (unit := step.split(" | ")[1]) in GOALS}
    print(as_markdown(medians, goals))
    return 0


if __name__ == "__main__":
    sys.exit(main())
