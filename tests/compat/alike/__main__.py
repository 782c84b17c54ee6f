"""Play scripts and random walks on Apache Kafka and on headrace, and tell every field that differs."""

import argparse
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from tests.compat.alike import play
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
    parser.add_argument("areas", nargs="*", help=f"of {', '.join(play.AREAS)}; all of them without any")
    parser.add_argument("--kafka", metavar="HOST:PORT", help="a Kafka that runs with play.SETTINGS")
    parser.add_argument("--headrace", metavar="HOST:PORT", help="a headrace that runs with play.SETTINGS")
    parser.add_argument("--simulated", action="store_true", help="headrace in virtual time, in this process")
    parser.add_argument("--seeds", type=int, default=3, help="random walks of each area")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--record", action="store_true", help="keep what Kafka says to the scripts")
    parser.add_argument("--verbose", action="store_true", help="show allowed differences too")
    return parser.parse_args()


def started(stack: ExitStack, kind: type[Broker], folder: Path) -> str:
    broker = stack.enter_context(kind(folder / "data", play.SETTINGS))
    folder.mkdir()
    broker.start()
    return broker.bootstrap


def main() -> int:
    chosen = options()
    count = Count(verbose=chosen.verbose)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="alike-")))
        kafka = chosen.kafka or started(stack, ApacheKafkaBroker, folder / "kafka")
        ours = chosen.headrace or ""
        if not ours and not chosen.simulated:
            ours = started(stack, HeadraceBroker, folder / "headrace")
        for area in chosen.areas or play.AREAS:
            seeds = range(chosen.first_seed, chosen.first_seed + chosen.seeds)
            walks = list(seeds) if hasattr(play.load(area), "walk") else []
            for seed in [None, *walks]:
                before = count.cases
                said = play.on_running(kafka, area, seed)
                if chosen.record and seed is None:
                    play.keep(area, said)
                count.take(said, play.on_running(ours, area, seed) if ours else play.on_simulated(area, seed))
                what = "script" if seed is None else f"walk {seed}"
                print(f"{area}, {what}: {count.cases - before} answers", flush=True)
    allowed = ", ".join(f"{name} {times}" for name, times in count.allowed.most_common()) or "none"
    print(f"{count.cases} answers compared, {count.unexplained} differences left; allowed: {allowed}")
    return 1 if count.unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
