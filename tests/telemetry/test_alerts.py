"""Alerts in Debian's Prometheus, each by the fault that it is for: a disk that runs full, a group that lags.
They fire, name who it is, and resolve when the fault is over. What a killed node does is in
test_prometheus.py, and every rule in made-up time in alert-rules.test.yml.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from tests.compat.clients.face import eventually
from tests.compat.cluster import HeadraceCluster, Node
from tests.compat.faults import disks
from tests.telemetry.prometheus import Prometheus
from tests.telemetry.watched import (
    PARTITIONS,
    SECONDS,
    TOPIC,
    Load,
    address_of,
    programs_or_skip,
    start_watched,
)

pytestmark = [pytest.mark.prometheus, pytest.mark.slow, pytest.mark.timeout(900)]

SMALL = 3
"""The node whose disk is small."""
# In a mount namespace of the node's own, which ends with it. What `headrace format` has made is put there.
ON_A_SMALL_DISK = """
cp -a "$0" "$0.formatted"
mount -t tmpfs -o size=256m small "$0"
cp -a "$0.formatted/." "$0"
exec "$@"
"""


def small_disk(folder: Path) -> list[str]:
    """What a node's command runs under, so that its folder is a disk of its own."""
    return ["unshare", "--mount", "sh", "-ec", ON_A_SMALL_DISK, str(folder)]


def seen_by(node: Node) -> Path:
    """The node's folder as the node itself sees it."""
    return Path(f"/proc/{node.pid}/root{node.data}")


@pytest.fixture(scope="module")
def programs() -> Path:
    return programs_or_skip()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeadraceCluster]:
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("this user may not mount disks in a namespace")
    folder = tmp_path_factory.mktemp("nodes")
    entrance = {SMALL: small_disk(folder / f"node{SMALL}")}
    with HeadraceCluster(folder, entrances=entrance) as cluster:
        start_watched(cluster)
        yield cluster


@pytest.fixture(scope="module")
def prometheus(
    programs: Path, cluster: HeadraceCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    addresses = [address_of(node) for node in cluster.nodes]
    folder = tmp_path_factory.mktemp("prometheus")
    with Load(cluster.bootstrap), Prometheus(programs / "prometheus", folder, addresses) as server:
        eventually(lambda: server.query(f'kafka_consumergroup_lag_sum{{topic="{TOPIC}"}}'), "there is a load")
        yield server


def test_a_disk_that_runs_full(prometheus: Prometheus, cluster: HeadraceCluster) -> None:
    node = cluster.nodes[SMALL - 1]
    here = {"instance": address_of(node), "directory": str(node.data)}
    assert os.statvfs(seen_by(node)).f_blocks < os.statvfs(cluster.nodes[0].data or "/").f_blocks
    eventually(lambda: not prometheus.firing(**here), "nothing is said of the small disk", SECONDS)
    disks.fill(seen_by(node))
    eventually(lambda: "HeadraceDiskFillsUp" in prometheus.firing(**here), "the alert fires", SECONDS)
    of_replicas = "HeadraceUnderReplicatedPartitions"
    eventually(lambda: of_replicas in prometheus.firing(), "others lead, and miss a replica", SECONDS)
    disks.relieve(seen_by(node))
    eventually(lambda: not prometheus.firing(**here), "they resolve", SECONDS)
    eventually(lambda: of_replicas not in prometheus.firing(), "its replicas are in sync again", SECONDS)


def test_a_group_that_lags(prometheus: Prometheus, cluster: HeadraceCluster) -> None:
    late = {"consumergroup": "late", "topic": TOPIC}
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": "late",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "max.poll.interval.ms": 600_000,
    }
    consumer = Consumer(settings)
    try:
        consumer.subscribe([TOPIC])
        places: set[int] = set()

        def has_begun() -> bool:
            """It has read something of every partition, and commits that."""
            places.update(each.partition() or 0 for each in consumer.consume(10, timeout=1))
            return len(places) == PARTITIONS

        eventually(has_begun, "the group reads", SECONDS)
        consumer.commit(asynchronous=False)
        consumer.pause(consumer.assignment())

        def lags() -> bool:
            """Its member lives, and takes no records."""
            consumer.poll(0)
            return "HeadraceGroupLags" in prometheus.firing(**late)

        eventually(lags, "the alert fires", SECONDS)
        assert "HeadraceGroupLags" not in prometheus.firing(consumergroup="billing")
        consumer.resume(consumer.assignment())

        def has_caught_up() -> bool:
            if consumer.consume(5000, timeout=0.5):
                consumer.commit(asynchronous=False)
            return not prometheus.firing(**late)

        eventually(has_caught_up, "it resolves", SECONDS)
    finally:
        consumer.close()
