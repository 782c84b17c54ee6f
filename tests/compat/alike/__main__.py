"""Play scripts and random walks on Apache Kafka and on headrace, and tell every field that differs."""

import argparse
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from tests.compat.alike import play, three_nodes
from tests.compat.alike.allowed import reason_for
from tests.compat.alike.difference import compare
from tests.compat.alike.session import Answer
from tests.compat.brokers import ApacheKafkaBroker, Broker, HeadraceBroker


class Count:
    """What came out so far."""

    def __init__(self, *, verbose: bool) -> None:
        self.verbose = verbose
        self.cases = 0
        self.unexplained = 0
        self.allowed: Counter[str] = Counter()

    def take(self, kafka: list[Answer], ours: list[Answer]) -> None:
        self.cases += len(kafka)
        for difference in compare(kafka, ours):
            row = reason_for(difference)
            if row is None:
                self.unexplained += 1
                print(difference)
            else:
                self.allowed[row.name] += 1
                if self.verbose:
                    print(f"({row.name}) {difference}")


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.compat.alike", description=__doc__)
    areas = ", ".join(play.AREAS + play.ON_THREE_NODES)
    parser.add_argument("areas", nargs="*", help=f"of {areas}; all of them without any")
    parser.add_argument("--kafka", metavar="HOST:PORT", help="a Kafka that runs with play.SETTINGS")
    parser.add_argument("--headrace", metavar="HOST:PORT", help="a headrace that runs with play.SETTINGS")
    parser.add_argument("--simulated", action="store_true", help="headrace in virtual time, in this process")
    parser.add_argument("--seeds", type=int, default=3, help="random walks of each area")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--record", action="store_true", help="keep what Kafka says to the scripts")
    parser.add_argument("--verbose", action="store_true", help="show allowed differences too")
    return parser.parse_args()


def started(stack: ExitStack, kind: type[Broker], folder: Path, settings: dict[str, str]) -> str:
    broker = stack.enter_context(kind(folder / "data", settings))
    folder.mkdir()
    broker.start()
    return broker.bootstrap


def one_node(chosen: argparse.Namespace, areas: list[str], folder: Path, count: Count) -> None:
    """Areas that have the same settings, on a broker of each kind."""
    settings = play.settings_of(areas[0])
    folder.mkdir()
    with ExitStack() as stack:
        kafka = chosen.kafka or started(stack, ApacheKafkaBroker, folder / "kafka", settings)
        ours = chosen.headrace or ""
        if not ours and not chosen.simulated:
            ours = started(stack, HeadraceBroker, folder / "headrace", settings)
        for area in areas:
            seeds = range(chosen.first_seed, chosen.first_seed + chosen.seeds)
            walks = list(seeds) if hasattr(play.load(area), "walk") else []
            for seed in [None, *walks]:
                said = play.on_running(kafka, area, seed)
                if chosen.record and seed is None:
                    play.keep(area, said)
                ours_said = play.on_running(ours, area, seed) if ours else play.on_simulated(area, seed)
                count.take(said, ours_said)
                what = "script" if seed is None else f"walk {seed}"
                print(f"{area}, {what}: {len(said)} answers", flush=True)


def clusters(chosen: argparse.Namespace, areas: list[str], folder: Path, count: Count) -> None:
    """Three processes of Kafka first, then three of ours: not six at once."""
    for area in areas:
        with three_nodes.running("kafka", folder / f"kafka-{area}") as addresses:
            said = three_nodes.on_running(addresses, area)
        if chosen.record:
            play.keep(area, said)
        if chosen.simulated:
            count.take(said, three_nodes.on_simulated(area))
        else:
            with three_nodes.running("headrace", folder / f"headrace-{area}") as addresses:
                count.take(said, three_nodes.on_running(addresses, area))
        print(f"{area}, on three nodes: {len(said)} answers", flush=True)


def main() -> int:
    chosen = options()
    count = Count(verbose=chosen.verbose)
    areas = chosen.areas or [*play.AREAS, *play.ON_THREE_NODES]
    with tempfile.TemporaryDirectory(prefix="alike-") as folder:
        alone: dict[str, list[str]] = {}
        for area in areas:
            if area in play.AREAS:
                alone.setdefault(str(play.settings_of(area)), []).append(area)
        for group in alone.values():
            one_node(chosen, group, Path(folder) / group[0], count)
        clusters(chosen, [area for area in areas if area in play.ON_THREE_NODES], Path(folder), count)
    allowed = ", ".join(f"{name} {times}" for name, times in count.allowed.most_common()) or "none"
    print(f"{count.cases} answers compared, {count.unexplained} differences left; allowed: {allowed}")
    return 1 if count.unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
