"""Certificates and passwords change under a producer, and it does not notice: the short form of
`python -m tests.compat.faults --secure`, with three nodes in this process and one of them stopped and started
after each change, so that everybody has to show what is new."""

import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.clients import AclBinding, Admin, Producer, UserScramCredentialUpsertion
from headrace.node import channel_builders
from headrace.node.certificate_folder import CertificateFolder
from headrace.security.certificates import expires_at
from headrace.testing.cluster import Cluster
from tests.compat.clients.face import eventually

TOPIC = "events"
DAYS = 77  # no certificate was made for so long before


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setattr(channel_builders, "LOOK_S", 0.05)
    with Cluster(nodes=3, settings={"min.insync.replicas": "2"}, secure=True) as started:
        started.create_topic(TOPIC, 3, replication_factor=3)
        yield started


def restart(cluster: Cluster, node_id: int) -> None:
    cluster.stop_node(node_id)
    cluster.start_node(node_id)


def served(address: str) -> bytes:
    """The certificate that a node shows to who connects now."""
    host, _, port = address.rpartition(":")
    return ssl.get_server_certificate((host, int(port))).encode()


@pytest.mark.timeout(180)
def test_a_producer_does_not_notice_new_certificates_and_passwords(cluster: Cluster) -> None:
    login = ["app", cluster.client_settings("app")["sasl.password"]]
    settings = cluster.client_settings("app") | {"sasl.credentials.provider": lambda: tuple(login)}
    certificates = CertificateFolder(Path(settings["ssl.truststore.location"]).parent)
    delivered = 0

    def write(producer: Producer) -> None:
        nonlocal delivered
        sent = [producer.send(TOPIC, b"%d" % number, partition=number % 3) for number in range(30)]
        delivered += len([each.result(120) for each in sent])

    with Producer(settings) as producer, Admin(cluster.client_settings("admin")) as admin:
        write(producer)
        for node_id in cluster.node_ids:
            certificates.renew(f"node{node_id}", days=DAYS)
        for address in cluster.bootstrap_servers.split(","):
            eventually(lambda address=address: _is_renewed(served(address), certificates), address)
        restart(cluster, 1)
        write(producer)
        admin.alter_user_scram_credentials(UserScramCredentialUpsertion("app-b", "another"))
        admin.create_acls(AclBinding("User:app-b", "all", "topic", TOPIC))
        eventually(_knows(cluster, "app-b"), "every node knows the new user and its rule")
        login[:] = ["app-b", "another"]
        restart(cluster, 2)
        write(producer)
        # The former user's password is of no use from now on, and nobody needs it.
        admin.alter_user_scram_credentials(UserScramCredentialUpsertion("app", "unknown to the producer"))
        restart(cluster, 3)
        write(producer)
    assert delivered == 120


def _is_renewed(certificate: bytes, certificates: CertificateFolder) -> bool:
    ends = {expires_at(certificates.file_of(f"node{node_id}").read_bytes()) for node_id in (1, 2, 3)}
    return expires_at(certificate) in ends


def _knows(cluster: Cluster, user: str) -> Callable[[], bool]:
    def is_known() -> bool:
        known = [node.image.security for node in cluster._nodes.values()]
        return all(
            any(key.user == user for key in list(each.scram))
            and any(rule.principal == f"User:{user}" for rule in list(each.acls.values()))
            for each in known
        )

    return is_known
