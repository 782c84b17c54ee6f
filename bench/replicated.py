"""python -m bench.replicated [--scale X] [--rounds N]: three replicas, acks=all, beside Kafka's three nodes.

Three nodes of each kind on this machine, one kind after the other in every round, with librdkafka's own
benchmark as the producer: batches of 64 KiB, to one partition and to six, that two nodes must have in sync.
CPU is that of the three nodes together. Both are warmed up with three gigabytes first.
Figures are medians over the rounds. With --json the figures are added to those of earlier calls, so that a
long comparison can be made in slices.
"""

import argparse
import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path

from bench import loads
from bench.brokers import missing
from bench.clusters import Cluster, HeadraceCluster, KafkaCluster
from bench.machine import end_tidily
from bench.report import as_markdown, at_least, at_most

WARM_UP_BYTES = 3e9
LOADS = {
    "1 KB, one partition": (1000, 1, 1e9),
    "1 KB, six partitions": (1000, 6, 1e9),
    "100 B, one partition": (100, 1, 1e9),
}
GOALS = {f"{name} | mb_s": at_least(3) for name in LOADS} | {
    f"{name} | cpu_s_per_gb": at_most(1 / 4) for name in LOADS
}


def run(cluster: Cluster, scale: float) -> dict[str, float]:
    """All loads on a cluster that runs."""
    _produce(cluster, "warm-up", 1000, 1, WARM_UP_BYTES * scale)
    figures: dict[str, float] = {}
    for name, (size, partitions, total_bytes) in LOADS.items():
        found = _produce(cluster, f"load-{size}-{partitions}", size, partitions, total_bytes * scale)
        for unit, value in found.items():
            figures[f"{name} | {unit}"] = value
            print(f"  {cluster.name:9} {name:24} {unit:14} {value:10.2f}", flush=True)
    return figures


def _produce(
    cluster: Cluster, topic: str, size: int, partitions: int, total_bytes: float
) -> dict[str, float]:
    loads.create(cluster, topic, partitions)
    figures = loads.produce(cluster, topic, size=size, count=int(total_bytes / size), acks=-1)
    loads.delete(cluster, topic)
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.replicated", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="how much of the load")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--brokers", nargs="+", choices=("headrace", "kafka"), default=("headrace", "kafka"))
    parser.add_argument("--json", type=Path, help="add the figures to these, and tell the medians of all")
    parser.add_argument("--markdown", type=Path, help="also write the table here")
    options = parser.parse_args()
    end_tidily()
    if lacking := missing():
        print("bench: cannot run:", *lacking, sep="\n  ", file=sys.stderr)
        return 2
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    if options.json and options.json.exists():
        for step, by_kind in json.loads(options.json.read_text()).items():
            for name, values in by_kind.items():
                found[step][name] += values
    for _ in range(options.rounds):
        for kind in (HeadraceCluster, KafkaCluster):
            if kind.name in options.brokers:
                with kind() as cluster:
                    for step, value in run(cluster, options.scale).items():
                        found[step][kind.name].append(value)
    medians = {
        step: {name: statistics.median(values) for name, values in by_kind.items()}
        for step, by_kind in found.items()
    }
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    table = as_markdown(medians, GOALS)
    print(table)
    if options.markdown:
        options.markdown.write_text(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
