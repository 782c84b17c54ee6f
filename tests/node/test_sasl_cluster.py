"""Nodes that log in at each other: quorum, replication and clients over SASL, with sessions that end."""

import logging
from collections import Counter
from collections.abc import Iterator

import pytest

from headrace.clients import Admin, AuthenticationError, Consumer, Producer
from headrace.security.sasl_channel_builder import LoginConnection, SaslChannelBuilder
from headrace.testing.cluster import Cluster

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
USERS = 'user_node="node-secret" user_alice="alice-secret"'
LINE = f'{PLAIN} required username="node" password="node-secret" {USERS};'
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": LINE,
    "listener.name.controller.plain.sasl.jaas.config": LINE,
    "connections.max.reauth.ms": "1500",
}
ALICE = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": f'{PLAIN} required username="alice" password="alice-secret";',
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, SETTINGS) as cluster:
        yield cluster


def test_records_are_replicated_while_sessions_end(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients and nodes log in again on the connections they have, and nothing is lost meanwhile.

    A process that stalls may miss the end of a session and has to connect again; that the client is in time
    is checked in tests/security/test_sasl_channel_builder.py, with virtual time.
    """
    logins = _count_logins(monkeypatch)
    given = ALICE | {"bootstrap.servers": cluster.bootstrap_servers}
    with Admin(given) as admin:
        admin.create_topic("t", partitions=3, replication_factor=3)
    with caplog.at_level(logging.WARNING), Producer(given, acks="all", linger_ms=0) as producer:
        sent = 0
        producer.send("t", b"0").result(60)
        while sum(times > 2 for times in logins.values()) < 3:
            sent += 1
            producer.send("t", str(sent).encode()).result(60)
    assert not [each for each in caplog.messages if "failed to log in" in each]
    with Consumer(given, auto_offset_reset="earliest", group_id="g") as consumer:
        consumer.subscribe(["t"])
        found: set[bytes] = set()
        while len(found) <= sent:
            found.update(record.value for record in consumer.poll(1.0))
    assert found == {str(number).encode() for number in range(sent + 1)}


def _count_logins(monkeypatch: pytest.MonkeyPatch) -> Counter[LoginConnection]:
    """By connection, how often a login was through: of clients and of nodes, all in this process."""
    logins: Counter[LoginConnection] = Counter()
    plan = SaslChannelBuilder._plan

    def counted(
        builder: SaslChannelBuilder, connection: LoginConnection, host: str, lifetime_ms: int
    ) -> None:
        logins[connection] += 1
        plan(builder, connection, host, lifetime_ms)

    monkeypatch.setattr(SaslChannelBuilder, "_plan", counted)
    return logins


def test_a_stranger_learns_nothing(cluster: Cluster) -> None:
    given = {"bootstrap.servers": cluster.bootstrap_servers}
    with pytest.raises(AuthenticationError), Admin(given | ALICE | {"sasl.jaas.config": WRONG}) as admin:
        admin.describe_cluster()


WRONG = f'{PLAIN} required username="node" password="wrong";'
