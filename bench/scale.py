"""python -m bench.scale [--partitions N] [--nodes 1|3] [--controller]: what many partitions cost.

One node (or three, with three replicas each): N partitions in topics of 1000 are made one request after the
other; a record goes to each; the node stops in order and starts; a record goes to each again; the node is
killed and starts. Times are those until Metadata names a leader for every partition, and until every leader
tells where its partitions end, which only a log that is open can tell. Memory is taken at the end of a step.
headrace and Apache Kafka run with their defaults, one after the other, with the machine to themselves. Their
folders are removed at the very end: for some minutes ext4 passes over each inode that was deleted when it
looks for a free one, and whoever makes files then pays (20 s of CPU instead of 2 for headrace's). So nothing
else should have deleted many files before.

With --controller there are no brokers and no Kafka: an image of N partitions in the memory of one process,
its snapshot, replay and a failover (see `bench.scale_controller`).
"""

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from bench.brokers import KAFKA_LIBS, Broker, Headrace, Kafka
from bench.clusters import HeadraceCluster, KafkaCluster
from bench.machine import end_tidily
from bench.report import as_markdown, at_most
from bench.topic_wire import Connections, count

TOPIC_PARTITIONS = 1000
LONGEST_S = 300.0
PAUSE_S = 0.1
LAST_NODE_S = 60.0

KINDS: dict[int, tuple[type[Broker], ...]] = {1: (Headrace, Kafka), 3: (HeadraceCluster, KafkaCluster)}

GOALS = {
    "create | led_s": at_most(1 / 5),
    "create | served_s": at_most(1 / 5),
    "restart | metadata_s": at_most(1 / 5),
    "restart | served_s": at_most(1 / 5),
    "restart after kill -9 | metadata_s": at_most(1 / 5),
    "restart after kill -9 | served_s": at_most(1 / 5),
    "create | rss_mb": at_most(1 / 2),
    "restart | rss_mb": at_most(1 / 2),
}

Figures = dict[str, float]


class Run:
    """One system, from nothing to its second restart."""

    def __init__(self, broker: Broker, partitions: int, nodes: int) -> None:
        self._broker = broker
        self._partitions = partitions
        self._nodes = nodes
        self._acks = 1 if nodes == 1 else -1

    def steps(self) -> dict[str, Callable[[], Figures]]:
        return {"create": self.create, "restart": self.restart, "restart after kill -9": self.restart_killed}

    def create(self) -> Figures:
        connections = Connections(self._broker.address)
        cpu_s, began = self._broker.cpu_s(), time.monotonic()
        left, number = self._partitions, 0
        while left:
            size = min(left, TOPIC_PARTITIONS)
            connections.create(f"t{number}", size, self._nodes)
            left, number = left - size, number + 1
        answered_s = time.monotonic() - began
        figures = {"answered_s": answered_s, **self._until_all(connections, began)}
        figures |= {"cpu_s": self._broker.cpu_s() - cpu_s, "rss_mb": self._broker.rss_mb()}
        self._write(connections)
        connections.close()
        return figures

    def restart(self) -> Figures:
        began = time.monotonic()
        # One that is killed because it takes long would be measured as if it had been stopped in order.
        self._broker.stop(grace_s=LONGEST_S if self._nodes == 1 else LAST_NODE_S)
        return {"stop_s": time.monotonic() - began, **self._start()}

    def restart_killed(self) -> Figures:
        connections = Connections(self._broker.address)
        self._write(connections)
        connections.close()
        self._broker.kill()
        return self._start()

    def _start(self) -> Figures:
        began = time.monotonic()
        self._broker.start()
        connections = Connections(self._broker.address)
        figures = {"metadata_s": self._broker.ready_s, **self._until_all(connections, began)}
        connections.close()
        return figures | {"cpu_s": self._broker.cpu_s(), "rss_mb": self._broker.rss_mb()}

    def _until_all(self, connections: Connections, began: float) -> Figures:
        """How long until all have leaders, and until all of these serve."""
        deadline = time.monotonic() + LONGEST_S
        while count(led := connections.led()) < self._partitions:
            self._pause(deadline, f"{count(led)} of {self._partitions} partitions have a leader")
        led_s = time.monotonic() - began
        while left := count(connections.unserved(led)):
            self._pause(deadline, f"{left} of {self._partitions} partitions are not served")
            led = connections.led()
        return {"led_s": led_s, "served_s": time.monotonic() - began}

    def _pause(self, deadline: float, state: str) -> None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{self._broker.name}: after {LONGEST_S:.0f} s {state}")
        time.sleep(PAUSE_S)

    def _write(self, connections: Connections) -> None:
        connections.write_to_all(connections.led(), self._acks)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, choices=tuple(KINDS), default=1)
    parser.add_argument("--brokers", nargs="+", choices=("headrace", "kafka"), default=("headrace", "kafka"))
    parser.add_argument("--controller", action="store_true", help="the controller's image alone")
    parser.add_argument("--markdown", type=Path, help="also write the table here")
    options = parser.parse_args()
    end_tidily()
    if options.controller:
        from bench.scale_controller import measure

        table = measure(options.partitions)
    else:
        if "kafka" in options.brokers and not KAFKA_LIBS.is_dir():
            print(
                f"bench: Apache Kafka's jars are not in {KAFKA_LIBS}: ./test --all fetches them",
                file=sys.stderr,
            )
            return 2
        table = _side_by_side(options.partitions, options.nodes, options.brokers)
    print(table)
    if options.markdown:
        options.markdown.write_text(table)
    return 0


def _side_by_side(partitions: int, nodes: int, names: list[str]) -> str:
    found: dict[str, dict[str, float]] = defaultdict(dict)
    with ExitStack() as folders:
        for kind in KINDS[nodes]:
            if kind.name not in names:
                continue
            broker = folders.enter_context(kind())
            for step, act in Run(broker, partitions, nodes).steps().items():
                for name, value in act().items():
                    found[f"{step} | {name}"][kind.name] = value
                    print(f"  {kind.name:9} {step:24} {name:12} {value:10.2f}", flush=True)
            broker.stop()
    where = "one node" if nodes == 1 else f"{nodes} nodes, {nodes} replicas each"
    title = f"{partitions:,} partitions on {where}"
    return f"{title}\n\n{as_markdown(found, GOALS)}"


if __name__ == "__main__":
    sys.exit(main())
