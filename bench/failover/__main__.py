"""python -m bench.failover [--rounds N] [--kafka-rounds N] [--only KIND...]: how long clients wait when a
node is killed, beside Apache Kafka.

Three nodes with three replicas of everything; each round one of them is killed with SIGKILL while two clients
work, librdkafka and our own, both with their defaults:

- leader: they write to a partition that the killed node leads, acks=all and idempotent; it is not the active
  controller
- leader and controller: the same, and it is
- controller: they change a topic's setting, which the active controller has to decide; that one is killed
- coordinator: they commit offsets as members of groups that the killed node coordinates

The wait is from the kill to the first success of something begun after it. The node is then started again,
and the next round begins at a random moment after the cluster is whole. What a program would have seen as an
error is counted, too. The systems run one after the other, with their defaults.
"""

import argparse
import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.brokers import KAFKA_LIBS
from bench.clusters import Cluster, HeadraceCluster, KafkaCluster
from bench.failover.clients import (
    Client,
    OwnAdmin,
    OwnCommitter,
    OwnWriter,
    StockAdmin,
    StockCommitter,
    StockWriter,
)
from bench.failover.nodes import Nodes, wait_for
from bench.failover.table import as_markdown

WARM_SUCCESSES = 20
LULL_S = 2.0

Note = Callable[[str, float], None]


class Rounds:
    """One system's rounds."""

    def __init__(self, nodes: Nodes, note: Note) -> None:
        self._nodes = nodes
        self._note = note
        self._topics = 0
        self.errors: dict[str, list[str]] = defaultdict(list)

    def run(self, kind: str) -> None:
        controller = self._nodes.controller()
        is_controllers = kind in ("controller", "leader and controller")
        target = controller if is_controllers else self._nodes.other_than(controller)
        clients = self._clients(kind, target)
        with ExitStack() as stack:
            for client in clients.values():
                stack.enter_context(client)
            for client in clients.values():
                wait_for(lambda c=client: c.successes >= WARM_SUCCESSES, "clients to warm up")  # type: ignore[misc]
            time.sleep(random.uniform(0, LULL_S))
            known = {name: len(client.errors) for name, client in clients.items()}
            killed_at = self._nodes.kill(target)
            for name, client in clients.items():
                self._note(f"{kind}, {name}", (client.first_after(killed_at) - killed_at) * 1000)
        for name, client in clients.items():
            self.errors[f"{kind}, {name}"] += client.errors[known[name] :]
        self._nodes.bring_back(target)
        time.sleep(random.uniform(0, LULL_S))

    def _clients(self, kind: str, target: int) -> dict[str, Client]:
        """The two clients of a round, on a topic that the target leads only where that is the question."""
        servers = self._nodes.cluster.address
        leader = target if "leader" in kind else self._nodes.other_than(target)
        topic = self._new_topic(leader)
        if kind == "controller":
            return {"stock": StockAdmin(servers, topic), "own": OwnAdmin(servers, topic)}
        if kind == "coordinator":
            groups = [self._nodes.group_coordinated_by(target, f"{topic}-{each}") for each in "so"]
            return {
                "stock": StockCommitter(servers, topic, groups[0]),
                "own": OwnCommitter(servers, topic, groups[1]),
            }
        return {"stock": StockWriter(servers, topic), "own": OwnWriter(servers, topic)}

    def _new_topic(self, leader: int) -> str:
        self._topics += 1
        name = f"round-{self._topics}"
        replicas = [leader, *(each for each in self._nodes.ids if each != leader)]
        admin = AdminClient({"bootstrap.servers": self._nodes.cluster.address})
        new = NewTopic(name, 1, replica_assignment=[replicas])
        for future in admin.create_topics([new]).values():
            future.result()
        return name


KINDS = ("leader", "leader and controller", "controller", "coordinator")
SYSTEMS: dict[str, type[Cluster]] = {"headrace": HeadraceCluster, "kafka": KafkaCluster}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.failover", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="kills of each kind")
    parser.add_argument("--kafka-rounds", type=int, default=5, help="Kafka's, which take half a minute each")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--systems", nargs="+", choices=tuple(SYSTEMS), default=tuple(SYSTEMS))
    parser.add_argument("--json", type=Path, help="also write every figure here")
    parser.add_argument("--markdown", type=Path, help="also write the table here")
    options = parser.parse_args()
    if "kafka" in options.systems and not KAFKA_LIBS.is_dir():
        print(f"bench: Apache Kafka's jars are not in {KAFKA_LIBS}", file=sys.stderr)
        return 2
    waits: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    errors: dict[str, dict[str, list[str]]] = {}
    for system in options.systems:

        def note(what: str, wait_ms: float, system: str = system) -> None:
            waits[what][system].append(wait_ms)
            print(f"  {system:9} {what:32} {wait_ms:8.0f} ms", flush=True)

        cluster = SYSTEMS[system]()
        with Nodes(cluster) as nodes:
            rounds = Rounds(nodes, note)
            for _ in range(options.rounds if system == "headrace" else options.kafka_rounds):
                for kind in options.only:
                    rounds.run(kind)
        errors[system] = {what: seen for what, seen in rounds.errors.items() if seen}
    table = as_markdown(waits)
    print(table)
    for system, seen in errors.items():
        for what, texts in seen.items():
            print(f"{system}: {what}: {len(texts)} errors seen by the program, the last: {texts[-1]}")
    if options.json:
        options.json.write_text(json.dumps({"waits_ms": waits, "errors": errors}, indent=1))
    if options.markdown:
        options.markdown.write_text(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
