"""A cluster with a folder for its remote store, and a topic of which most has left the brokers' disks."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka

from headrace.base.ids import TopicPartition
from headrace.clients import Admin, OffsetSpec, Producer
from headrace.log.system_disk import SystemDisk
from headrace.testing.cluster import Cluster
from headrace.tiered.stores.opening import open_url
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
def tiered_cluster(store: Path) -> Iterator[Cluster]:
    store.mkdir()
    with cluster_on(str(store), {}) as cluster:
        yield cluster


def cluster_on(url: str, store_settings: Mapping[str, str]) -> Cluster:
    """A cluster with any store."""
    behind_prefix = {f"rsm.config.{name}": value for name, value in store_settings.items()}
    return Cluster(settings={**SETTINGS, "rsm.config.url": url, **behind_prefix})


def live_on(url: str, store_settings: Mapping[str, str], *, count: int) -> None:
    """A topic's life on a store: copied, read back whole by a client that we did not write, deleted."""
    store = open_url(url, store_settings, SystemDisk())
    with cluster_on(url, store_settings) as cluster:
        cluster.create_topic("tiered", configs=TOPIC)
        write(cluster, "tiered", count)
        start = wait_for_tail(cluster, "tiered", at_least=count // 2)
        assert len([name for name, _ in store.list("") if name.endswith(".log")]) >= start // 130
        consumed = _consumed(cluster.bootstrap_servers, "tiered", count)
        assert consumed == [f"{number:0100}".encode() for number in range(count)]
        with Admin({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
            admin.delete_topics(["tiered"])
        eventually(lambda: not list(store.list("")), lambda: f"an empty store: {list(store.list(''))}")


def _consumed(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    deadline = time.monotonic() + 60
    while len(values) < count and time.monotonic() < deadline:
        values += [message.value() for message in consumer.consume(1000, 1.0) if not message.error()]
    consumer.close()
    return values


def write(cluster: Cluster, topic: str, count: int, *, start: int = 0) -> None:
    """Records `start` to `start + count` of 100 bytes, one batch each 10."""
    with Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 60_000}) as producer:
        for number in range(start, start + count):
            producer.send(topic, key=str(number).encode(), value=f"{number:0100}".encode(), partition=0)
            if number % 10 == 9:
                producer.flush()


def wait_for_tail(cluster: Cluster, topic: str, *, at_least: int) -> int:
    """Where the local part starts, at this offset or later, once only the active segment is left of it: until
    somebody writes, nothing moves any more.
    """
    partition = TopicPartition(topic, 0)
    with Admin({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        (log_dir,) = admin.describe_log_dirs(1)
        folder = Path(log_dir.path) / str(partition)

        def offset(place: OffsetSpec) -> int:
            return admin.list_offsets({partition: place})[partition].offset

        def is_at_rest() -> bool:
            bases = [int(path.stem) for path in folder.glob("*.log")]
            return (
                bases == [offset(OffsetSpec.EARLIEST_LOCAL)] == [offset(OffsetSpec.LATEST_TIERED) + 1]
                and bases[0] >= at_least
            )

        eventually(is_at_rest, lambda: f"rest: {sorted(path.name for path in folder.iterdir())}")
        return offset(OffsetSpec.EARLIEST_LOCAL)
