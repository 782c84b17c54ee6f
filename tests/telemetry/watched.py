"""A cluster that Prometheus watches: nodes with a metrics listener, a producer and a group at work."""

import contextlib
import threading
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.transport.system_network import free_ports
from tests.compat import prepare
from tests.compat.cluster import HeadraceCluster, Node

TOPIC = "orders"
PARTITIONS = 6
SECONDS = 120.0
"""How long a test waits for what Prometheus sees: scrapes and rules have turns of a second, and a machine
that is busy with other tests takes its time for each."""


def programs_or_skip() -> Path:
    """The folder of `prometheus` and `promtool`."""
    try:
        return prepare.prometheus()
    except prepare.UnavailableError as reason:
        pytest.skip(str(reason))


def start_watched(cluster: HeadraceCluster) -> None:
    """Start nodes that tell metrics, and make the topic."""
    for node, port in zip(cluster.nodes, free_ports(len(cluster.nodes)), strict=True):
        node.settings["headrace.metrics.listener"] = f"HTTP://127.0.0.1:{port}"
    cluster.start()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(SECONDS)


def address_of(node: Node) -> str:
    """Where a node tells its metrics."""
    return node.settings["headrace.metrics.listener"].removeprefix("HTTP://")


class Load:
    """A producer and a group at work."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._over = threading.Event()
        self._threads = [threading.Thread(target=each) for each in (self._produce, self._consume)]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 20, "log_level": 0})
        number = 0
        while not self._over.wait(0.02):
            for _ in range(20):
                number += 1
                producer.produce(TOPIC, b"x" * 100, key=str(number).encode())
            producer.poll(0)
        producer.flush(10)

    def _consume(self) -> None:
        settings = {
            "bootstrap.servers": self._bootstrap,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 500,
            "log_level": 0,
        }
        consumer = Consumer(settings)
        consumer.subscribe([TOPIC])
        while not self._over.is_set():
            consumer.consume(1000, timeout=0.2)
        with contextlib.suppress(KafkaException):
            consumer.close()
