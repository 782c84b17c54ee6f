"""A cluster with a folder for its remote store, and a topic of which most has left the brokers' disks."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.base.ids import TopicPartition
from headrace.clients import Admin, Producer
from headrace.clients.places import Place
from headrace.testing.cluster import Cluster
from tests.compat.clients.face import eventually

SETTINGS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "50",
    "log.retention.check.interval.ms": "100",
    "log.initial.task.delay.ms": "0",
}
TOPIC = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": "16384",
    "local.retention.bytes": "1",
}


@contextmanager
def tiered_cluster(store: Path, **settings: str) -> Iterator[Cluster]:
    store.mkdir()
    with Cluster(settings={**SETTINGS, "rsm.config.url": str(store), **settings}) as cluster:
        yield cluster


def write(cluster: Cluster, topic: str, count: int, *, start: int = 0) -> None:
    """Records `start` to `start + count` of 100 bytes, one batch each 10."""
    with Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 60_000}) as producer:
        for number in range(start, start + count):
            producer.send(topic, key=str(number).encode(), value=f"{number:0100}".encode(), partition=0)
            if number % 10 == 9:
                producer.flush()


def local_start(admin: Admin, partition: TopicPartition) -> int:
    return admin.find_offsets({partition: Place.EARLIEST_LOCAL})[partition].offset


def wait_for_tail(cluster: Cluster, topic: str, *, at_least: int) -> int:
    """Where the local part starts once it starts there or later."""
    partition = TopicPartition(topic, 0)
    with Admin({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        eventually(
            lambda: local_start(admin, partition) >= at_least,
            lambda: f"tail: {local_start(admin, partition)}",
        )
        return local_start(admin, partition)
