"""Three nodes that talk TLS everywhere, with certificates of both sides: clients, brokers and the quorum."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing.cluster import Cluster
from tests.compat.clients.face import eventually
from tests.security.certificates import LOCAL, Authority

TOPIC = "everywhere"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[Cluster]:
    authority = Authority()
    authority.write(folder / "ca.pem")
    authority.sign("node", LOCAL).write(folder / "node.pem")
    authority.sign("client").write_apart(folder, "client")
    settings = {
        # The listeners are called so, which says nothing about what is spoken there.
        "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "node.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "ssl.client.auth": "required",
    }
    with Cluster(3, settings) as started:
        yield started


@pytest.fixture
def settings(cluster: Cluster, folder: Path) -> dict[str, Any]:
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "SSL",
        "ssl.ca.location": str(folder / "ca.pem"),
        "ssl.certificate.location": str(folder / "client.crt"),
        "ssl.key.location": str(folder / "client.key"),
    }


def write(settings: dict[str, Any], values: list[bytes]) -> None:
    failed: list[Any] = []
    producer = Producer(settings | {"acks": "all", "enable.idempotence": True})
    for value in values:
        producer.produce(TOPIC, value, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(60) == 0
    assert not failed


def test_a_cluster_replicates_fails_over_and_serves_groups(
    cluster: Cluster, settings: dict[str, Any]
) -> None:
    admin = AdminClient(settings)
    admin.create_topics([NewTopic(TOPIC, 3, 3)])[TOPIC].result(60)
    written = [b"%d" % at for at in range(200)]
    write(settings, written[:100])
    first = cluster.node_ids[0]
    cluster.stop_node(first)
    write(settings, written[100:])
    cluster.start_node(first)

    def all_in_sync() -> bool:
        described = admin.list_topics(TOPIC, timeout=60).topics[TOPIC].partitions.values()
        return len(described) == 3 and all(len(each.isrs) == 3 for each in described)

    eventually(all_in_sync, "all replicas in sync")
    consumer = Consumer(settings | {"group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    read: list[bytes] = []

    def has_all() -> bool:
        read.extend(each.value() for each in consumer.consume(1000, 0.2) if each.error() is None)
        return len(read) >= len(written)

    eventually(has_all, "all records")
    consumer.close()
    assert sorted(read) == sorted(written)
