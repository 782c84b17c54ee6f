"""A replica is added to a partition that is mostly in the remote store: it has no more on its disk than the
leader has, and when that is killed, stock clients read everything from it. The long form is
`python -m bench.tiers --replica --mb 10000`; in virtual time it is `tests/simulation/test_tiered_nodes.py`.

pytest -m slow tests/compat/test_tiers_replicas.py
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.base import ids
from headrace.clients import Admin
from tests.compat.clients.face import eventually
from tests.compat.cluster import HeadraceCluster

pytestmark = pytest.mark.slow

TOPIC = "grown"
SEGMENT_BYTES = 1 << 20
RECORDS = 16_000
VALUE_BYTES = 1_000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[HeadraceCluster]:
    (tmp_path / "store").mkdir()
    settings = {
        "remote.log.storage.system.enable": "true",
        "rsm.config.url": str(tmp_path / "store"),
        "remote.log.manager.task.interval.ms": "200",
        "log.retention.check.interval.ms": "200",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
        "min.insync.replicas": "1",
        "log.segment.delete.delay.ms": "100",
    }
    with HeadraceCluster(tmp_path / "data", settings) as started:
        started.start()
        yield started
        started.kill()


def bytes_of(folder: Path) -> int:
    size = 0
    for path in folder.glob("*.log"):
        with suppress(FileNotFoundError):  # it has just left
            size += path.stat().st_size
    return size


def fill(cluster: HeadraceCluster) -> None:
    """A partition of the first node alone, of which little is left on its disk."""
    config = {
        "remote.storage.enable": "true",
        "segment.bytes": str(SEGMENT_BYTES),
        "local.retention.bytes": str(SEGMENT_BYTES // 4),
    }
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    topic = NewTopic(TOPIC, 1, replica_assignment=[[1]], config=config)
    admin.create_topics([topic])[TOPIC].result(30)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5})
    for number in range(RECORDS):
        producer.produce(TOPIC, (b"%d " % number).ljust(VALUE_BYTES, b"."), partition=0)
    assert producer.flush(30) == 0
    folder = cluster.nodes[0].partition_folder(TOPIC, 0)
    eventually(lambda: bytes_of(folder) <= 2 * SEGMENT_BYTES, "most of it is in the store alone")


def read_all(bootstrap: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "auto.offset.reset": "error"})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    numbers: list[int] = []
    while len(numbers) < RECORDS:
        message = consumer.poll(30)
        assert message is not None, f"nothing came for 30 s, after {len(numbers)} records"
        if message.error() is None:
            numbers.append(int(message.value().split(b" ", 1)[0]))
    consumer.close()
    return numbers


def test_a_replica_is_added_without_copying_the_store(cluster: HeadraceCluster) -> None:
    fill(cluster)
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        assert not admin.reassign({ids.TopicPartition(TOPIC, 0): [2, 1]})
    metadata = AdminClient({"bootstrap.servers": cluster.bootstrap})

    def in_sync() -> set[int]:
        return set(metadata.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions[0].isrs)

    eventually(lambda: in_sync() == {1, 2}, "the new replica is in sync")
    assert bytes_of(cluster.nodes[1].partition_folder(TOPIC, 0)) <= 2 * SEGMENT_BYTES
    cluster.nodes[0].kill()
    eventually(lambda: in_sync() == {2}, "it is alone")
    others = ",".join(node.bootstrap for node in cluster.nodes[1:])
    assert read_all(others) == list(range(RECORDS))
