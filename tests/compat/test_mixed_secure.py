"""Apache Kafka and headrace in one cluster that speaks TLS and asks for logins everywhere (SASL_SSL): between
brokers, to the quorum's controller and for clients, with an authorizer on both. Each leads the other."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from headrace.clients import AclBinding, UserScramCredentialUpsertion
from headrace.settings.not_yet import STANDARD_AUTHORIZER
from tests.compat import prepare
from tests.compat.clients.face import eventually
from tests.compat.either import Pair, System
from tests.compat.prepare import UnavailableError
from tests.security.certificates import LOCAL, Authority

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

TOPIC = "shared"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
NODE = f'{PLAIN} required username="node" password="node-secret" user_node="node-secret";'


def login(folder: Path, user: str, password: str, mechanism: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(folder / "ca.pem"),
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    try:
        prepare.kafka_libs()
    except UnavailableError as reason:
        pytest.skip(str(reason))
    authority = Authority()
    authority.write(tmp_path / "ca.pem")
    authority.sign("node", LOCAL).write(tmp_path / "node.pem")
    stores = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(tmp_path / "node.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tmp_path / "ca.pem"),
    }
    settings = stores | {
        # The listeners are called so, which says nothing about what is spoken there.
        "listener.security.protocol.map": "PLAINTEXT:SASL_SSL,CONTROLLER:SASL_SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": NODE,
        "listener.name.controller.plain.sasl.jaas.config": NODE,
        "listener.name.plaintext.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:node",
        "min.insync.replicas": "1",
    }
    node = login(tmp_path, "node", "node-secret", "PLAIN")
    own = {name: value for name, value in (node | stores).items() if "keystore" not in name}
    del own["ssl.ca.location"]
    with Pair(tmp_path, settings, node, own) as pair:
        yield pair


@pytest.mark.parametrize(
    ("first", "second"),
    [("headrace", "kafka"), pytest.param("kafka", "headrace", marks=pytest.mark.slow)],
)
def test_both_systems_serve_a_user_of_the_cluster_whoever_leads(
    pair: Pair, tmp_path: Path, first: System, second: System
) -> None:
    pair.start(first, second)
    with pair.admin() as admin:
        admin.create_topic(TOPIC, partitions=1, replication_factor=2)
        admin.create_topic("others", partitions=1, replication_factor=2)
        admin.alter_user_scram_credentials(UserScramCredentialUpsertion("alice", "alice-secret"))
        admin.create_acls(
            [
                AclBinding("User:alice", "all", "topic", TOPIC),
                AclBinding("User:alice", "all", "group", "g"),
            ]
        )
    alice = {"bootstrap.servers": pair.bootstrap, "log_level": 0}
    alice |= login(tmp_path, "alice", "alice-secret", "SCRAM-SHA-512")
    for node in pair.nodes.values():
        at_node = Consumer(alice | {"bootstrap.servers": node.bootstrap, "group.id": "g"})
        eventually(lambda at_node=at_node: _is_let_in(at_node), f"{node.system} to know what alice may do")
        at_node.close()
    written: list[bytes] = []
    failed: list[Any] = []
    producer = Producer(alice | {"acks": "all", "message.timeout.ms": 60_000})
    for leader in (1, 2, 1, 2):
        pair.lead(TOPIC, 1, leader)
        for _ in range(25):
            written.append(b"%d" % len(written))
            producer.produce(
                TOPIC, written[-1], on_delivery=lambda error, _: failed.append(error) if error else None
            )
        assert producer.flush(60) == 0
    assert not failed
    assert _read(alice, len(written)) == written
    consumer = Consumer(alice | {"group.id": "g"})
    for _ in range(2):  # whichever of both answers
        with pytest.raises(KafkaException, match="uthoriz"):
            _raise_topic_error(consumer, "others")
    consumer.close()
    pair.stop()


def _is_let_in(consumer: Consumer) -> bool:
    """To the topic, and to the group, of which any node asks the authorizer first."""
    try:
        _raise_topic_error(consumer, TOPIC)
        consumer.committed([TopicPartition(TOPIC, 0)], 10)
    except KafkaException:
        return False
    return True


def _raise_topic_error(consumer: Consumer, topic: str) -> None:
    found = consumer.list_topics(topic, timeout=30).topics[topic]
    if found.error is not None:
        raise KafkaException(found.error)


def _read(settings: dict[str, Any], count: int) -> list[bytes]:
    consumer = Consumer(settings | {"group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    found: list[Message] = []

    def read() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message)
        return len(found) >= count

    eventually(read, lambda: f"{count} records: {len(found)}")
    consumer.close()
    return [bytes(each.value()) for each in found]
