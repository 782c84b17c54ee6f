"""python -m bench [--quick] [--only NAME...] [--brokers NAME...] [--json FILE]: measure headrace beside
Apache Kafka and print the ratios; or beside itself with ACLs or metrics (`variants`).

Both brokers run one after the other in the same round, with the other one stopped, so that each has the
machine to itself together with the client. Figures are medians over the rounds. Kafka is warmed up before it
is measured: its first gigabytes cost several times what later ones do.
"""

import argparse
import json
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from bench import loads
from bench.brokers import Broker, Headrace, Kafka, missing
from bench.report import GOALS, as_markdown, beside_itself
from bench.variants import WithAcls, WithMetrics

SIZES = {"1 KB": 1000, "100 B": 100}
ACKS = {"1": 1, "all": -1}
KINDS: dict[str, type[Broker]] = {each.name: each for each in (Headrace, WithAcls, WithMetrics, Kafka)}

Figures = dict[str, float]


class Run:
    """One broker in one round."""

    def __init__(self, broker: Broker, scale: float, note: Callable[[str, str, float], None]) -> None:
        self.broker = broker
        self.scale = scale
        self._note = note

    def note(self, step: str, figures: Figures) -> None:
        for name, value in figures.items():
            self._note(f"{step} | {name}", self.broker.name, value)
            print(f"  {self.broker.name:9} {step:32} {name:20} {value:10.2f}", flush=True)

    def warm_up(self) -> None:
        """Enough for a JVM to compile its hot paths; the same for both."""
        for number, size in enumerate(SIZES.values()):
            topic = f"warm-{number}"
            loads.create(self.broker, topic)
            count = int(2e9 * self.scale / size)
            loads.produce(self.broker, topic, size=size, count=count, acks=1)
            loads.consume(self.broker, topic, size=size, count=count)
            loads.delete(self.broker, topic)

    def throughput(self) -> None:
        for size_name, size in SIZES.items():
            for acks_name, acks in ACKS.items():
                topic = f"load-{size}-{acks_name}"
                count = int((1e9 if size == 1000 else 3e8) * self.scale / size)
                loads.create(self.broker, topic)
                figures = loads.produce(self.broker, topic, size=size, count=count, acks=acks)
                self.note(f"produce {size_name} acks={acks_name}", figures)
                if acks_name == "all":
                    self.note(
                        f"consume {size_name}", loads.consume(self.broker, topic, size=size, count=count)
                    )
                loads.delete(self.broker, topic)

    def small_requests(self) -> None:
        loads.create(self.broker, "small")
        for name, in_flight, connections in (("20 in flight x 4", 20, 4), ("one in flight", 1, 1)):
            for seconds in (2 * self.scale, 5 * self.scale):  # the first is warm-up
                figures = loads.small_requests(
                    self.broker, "small", in_flight=in_flight, connections=connections, seconds=seconds
                )
            self.note(f"small requests, {name}", figures)

    def latency(self) -> None:
        loads.create(self.broker, "latency")
        for seconds in (20 * self.scale, 10 * self.scale):  # the first is warm-up
            figures = loads.latency(self.broker, "latency", rate=1000, seconds=seconds)
        self.note("latency at 1000 msg/s", figures)

    def idle(self) -> None:
        """Memory and time to ready of a node that has served nothing."""
        self.broker.stop()
        self.broker.start()
        time.sleep(10)
        self.note("start", {"ready_s": self.broker.ready_s, "idle_rss_mb": self.broker.rss_mb()})


STEPS = ("idle", "warm_up", "throughput", "small_requests", "latency")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of the load, one round: shows that all works"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=STEPS, default=STEPS, help="just these steps")
    parser.add_argument("--brokers", nargs="+", choices=KINDS, default=("headrace", "kafka"))
    parser.add_argument("--json", type=Path, help="also write every figure here")
    parser.add_argument("--markdown", type=Path, help="also write the table here")
    options = parser.parse_args()
    if lacking := missing():
        print("bench: cannot run:", *lacking, sep="\n  ", file=sys.stderr)
        return 2
    figures: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    scale = 0.1 if options.quick else 1.0
    kinds = [kind for name, kind in KINDS.items() if name in options.brokers]
    for round_number in range(1 if options.quick else options.rounds):
        print(f"round {round_number + 1}", flush=True)
        for kind in kinds:
            with kind() as broker:
                run = Run(broker, scale, lambda step, name, value: figures[step][name].append(value))
                for step in STEPS:
                    if step in options.only:
                        getattr(run, step)()
    medians = {
        step: {name: statistics.median(values) for name, values in by_broker.items()}
        for step, by_broker in figures.items()
    }
    table = as_markdown(medians, GOALS) if "kafka" in options.brokers else ""
    table += beside_itself(medians, [name for name in options.brokers if name not in ("headrace", "kafka")])
    print(table)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))
    if options.markdown:
        options.markdown.write_text(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
