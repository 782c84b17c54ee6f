"""python -m bench.tiers [--mb N] [--rounds N] [--seconds N]: reads from the remote tier beside local ones.
python -m bench.tiers --replica [--mb N]: how long it takes to add a replica to a partition with a remote
tail.

Reading: one broker with a folder as its remote store, and two topics of the same records. One stays on the
disk; of the other a tenth does, and the rest is in the store. librdkafka's benchmark reads both from the
beginning, in turns. Then how long acknowledgements take at the tail of a third topic: alone, beside a reader
of the local topic, and beside one of the tiered topic, who go round and round; the latter also with a bound
on how fast the store is read. Each of these is measured at another broker as well, which serves no reader:
what it is late by is the machine's share, for client, reader and brokers have its cores in common. And so is
it beside two processes that have nothing to do with any broker, and copy bytes through a socket. All files
are in the page cache, for both; what is compared is the way through the broker.

Replica: three nodes, a partition with one replica whose segments are in the store, all but the last few. A
second replica is added, and the time runs until the controller says that it is in sync. --mb 10000 is the
tail of 10 GB.
"""

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar

from confluent_kafka.admin import AdminClient, NewTopic

from bench import loads
from bench.brokers import Broker, Headrace
from bench.clusters import NODES, Cluster, HeadraceCluster
from headrace.base.ids import TopicPartition
from headrace.clients import Admin, ResourceKind
from headrace.node.fleet import fleet_configs, format_fleet

SEGMENT_BYTES = 16 << 20
RECORD_BYTES = 1000
TIERS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "500",
    "log.retention.check.interval.ms": "500",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
}
QUOTA_MB = 100
PATIENCE_S = 600.0


class TieredHeadrace(Headrace):
    settings: ClassVar[dict[str, str]] = {**Headrace.settings, **TIERS}

    def prepare(self) -> None:
        store = self.folder / "store"
        store.mkdir()
        self.settings = {**self.settings, "rsm.config.url": str(store)}  # type: ignore[misc]


def create_tiered(broker: Broker, topic: str, local_bytes: int, replicas: list[int] | None = None) -> None:
    config = {
        "remote.storage.enable": "true",
        "segment.bytes": str(SEGMENT_BYTES),
        "local.retention.bytes": str(local_bytes),
    }
    placed = {"replica_assignment": [replicas]} if replicas else {"replication_factor": 1}
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(topic, 1, config=config, **placed)])[topic].result(60)


def local_bytes(folder: Path) -> int:
    size = 0
    for path in folder.glob("*.log"):
        with suppress(FileNotFoundError):  # it has just left
            size += path.stat().st_size
    return size


def wait_until_tiered(folder: Path, bytes_max: int) -> None:
    """Until no more than so much is on the disk."""
    deadline = time.monotonic() + PATIENCE_S
    while (left := local_bytes(folder)) > bytes_max:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{folder} still has {left} bytes after {PATIENCE_S} s")
        time.sleep(0.1)


# Two processes that copy what they are worth, as a broker and its reader do.
COPYING = """
import os, socket
one, other = socket.socketpair()
if os.fork() == 0:
    while True:
        one.sendall(bytes(256 << 10))
buffer = bytearray(1 << 20)
while True:
    other.recv_into(buffer)
"""


@contextmanager
def copying() -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", COPYING], start_new_session=True)
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class GoesRound:
    """A reader of a topic from the beginning, again and again, until it is left alone."""

    def __init__(self, broker: Headrace, topic: str, count: int) -> None:
        self._read = lambda: loads.consume(broker, topic, size=RECORD_BYTES, count=count)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.rates: list[float] = []

    def _run(self) -> None:
        while not self._stopped.is_set():
            self.rates.append(self._read()["mb_s"])

    def __enter__(self) -> "GoesRound":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()


def measure_reading(mb: int, rounds: int, seconds: float) -> None:
    count = mb * 1_000_000 // RECORD_BYTES
    with TieredHeadrace() as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        config = {"segment.bytes": str(SEGMENT_BYTES)}
        admin.create_topics([NewTopic("local", 1, config=config)])["local"].result(60)
        create_tiered(broker, "tiered", mb * 1_000_000 // 10)
        for topic in ("local", "tiered"):
            loads.produce(broker, topic, size=RECORD_BYTES, count=count, acks=1)
        folder = broker.folder / "data" / "tiered-0"
        wait_until_tiered(folder, mb * 1_000_000 // 10 + SEGMENT_BYTES)
        print(f"  {mb} MB, of which {local_bytes(folder) / 1e6:.0f} MB are on the disk", flush=True)
        found: dict[str, list[loads.Figures]] = {"local": [], "tiered": []}
        for number in range(rounds + 1):
            for topic, figures in found.items():
                figure = loads.consume(broker, topic, size=RECORD_BYTES, count=count)
                print(f"  {topic:7} {figure}", flush=True)
                if number:  # the first one warms up
                    figures.append(figure)
        report_reading(found)
        if seconds:
            with TieredHeadrace() as idle:
                measure_latency(broker, idle, count, seconds)


def report_reading(found: dict[str, list[loads.Figures]]) -> None:
    def median(topic: str, name: str) -> float:
        return statistics.median(figures[name] for figures in found[topic])

    for name, unit in (("mb_s", "MB/s"), ("cpu_s_per_gb", "broker CPU s/GB")):
        local, tiered = median("local", name), median("tiered", name)
        print(f"read {unit:16} local {local:8.2f}  remote {tiered:8.2f}  ratio {tiered / local:.2f}")


def measure_latency(broker: Headrace, idle: Headrace, count: int, seconds: float) -> None:
    """At the tail of another topic; the ways in turns, so that what else the machine does meets all."""
    places = {"": broker, ", at an idle broker": idle}
    for each in places.values():
        loads.create(each, "tail")
        loads.latency(each, "tail", rate=500, seconds=2)
    found: dict[str, list[loads.Figures]] = {}
    ways = (
        ("beside local reads", "local", None),
        ("beside remote reads", "tiered", None),
        (f"beside remote reads at {QUOTA_MB} MB/s", "tiered", QUOTA_MB),
    )
    for _ in range(3):
        found.setdefault("alone", []).append(loads.latency(broker, "tail", rate=500, seconds=seconds))
        with copying():
            figures = loads.latency(broker, "tail", rate=500, seconds=seconds)
        found.setdefault("beside two that copy through a socket", []).append(figures)
        for name, topic, quota_mb in ways:
            set_quota(broker, quota_mb)
            for suffix, place in places.items():
                with GoesRound(broker, topic, count if quota_mb is None else count // 4) as reader:
                    figures = loads.latency(place, "tail", rate=500, seconds=seconds)
                found.setdefault(name + suffix, []).append(figures)
                print(f"  {name}: {statistics.median(reader.rates):.0f} MB/s", flush=True)
    for name, measured in found.items():
        cuts = {
            cut: statistics.median(each[cut] for each in measured) for cut in ("ack_p50_ms", "ack_p99_ms")
        }
        print(f"acknowledged {name:53} p50 {cuts['ack_p50_ms']:6.2f} ms  p99 {cuts['ack_p99_ms']:6.2f} ms")


def set_quota(broker: Headrace, quota_mb: int | None) -> None:
    """How fast the remote store is read; None: as fast as it goes."""
    name = "remote.log.manager.fetch.max.bytes.per.second"
    wanted = {} if quota_mb is None else {name: str(quota_mb * 1_000_000)}
    with Admin(bootstrap_servers=broker.address) as admin:
        admin.alter_configs(ResourceKind.BROKER, "", set_to=wanted, delete=[name] if quota_mb is None else [])


# -- a replica is added --------------------------------------------------------------------------------------


class TieredCluster(HeadraceCluster):
    """Three nodes with one remote store."""

    def prepare(self) -> None:
        store = self.folder / "store"
        store.mkdir()
        settings = {**TIERS, "log.segment.delete.delay.ms": "100", "rsm.config.url": str(store)}
        self._configs = fleet_configs(NODES, 0, str(self.folder), settings)
        format_fleet(self._configs, random.SystemRandom())
        self.ports = [config.listeners[0].port for config in self._configs]


def measure_replica(mb: int) -> None:
    """Add a replica, and write meanwhile: it is in sync once it has what is written, too."""
    with TieredCluster() as cluster:
        create_tiered(cluster, "grown", 2 * SEGMENT_BYTES, replicas=[1])
        began = time.monotonic()
        loads.produce(cluster, "grown", size=RECORD_BYTES, count=mb * 1_000_000 // RECORD_BYTES, acks=1)
        folders = {
            number: Path(config.log_dirs[0]) / "grown-0"
            for number, config in enumerate(cluster._configs, start=1)
        }
        wait_until_tiered(folders[1], 4 * SEGMENT_BYTES)
        print(f"  {mb} MB were written and copied within {time.monotonic() - began:.0f} s", flush=True)
        began = time.monotonic()
        reassign(cluster, "grown", [1, 2])
        admin = AdminClient({"bootstrap.servers": cluster.address})
        while len(admin.list_topics("grown", timeout=30).topics["grown"].partitions[0].isrs) < 2:
            time.sleep(0.02)
        seconds = time.monotonic() - began
        print(
            f"a replica of {mb} MB was in sync after {seconds:.2f} s, "
            f"with {local_bytes(folders[2]) / 1e6:.0f} MB on its disk"
        )


def reassign(cluster: Cluster, topic: str, replicas: list[int]) -> None:
    with Admin(bootstrap_servers=cluster.address) as admin:
        refused = admin.reassign({TopicPartition(topic, 0): replicas})
    if refused:
        raise RuntimeError(f"the replica cannot be added: {refused}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mb", type=int, default=600, help="megabytes of records in each topic")
    parser.add_argument("--rounds", type=int, default=3, help="how often each topic is read")
    parser.add_argument("--seconds", type=float, default=8, help="how long latencies are measured; 0: not")
    parser.add_argument("--replica", action="store_true", help="add a replica instead")
    arguments = parser.parse_args()
    if arguments.replica:
        measure_replica(arguments.mb)
    else:
        measure_reading(arguments.mb, arguments.rounds, arguments.seconds)


if __name__ == "__main__":
    main()
