"""Kerberos with clients that we did not write: Java's, whose Krb5LoginModule is the JDK's, and sarama, whose
Kerberos is all Go. librdkafka's wheels have no GSSAPI, and the other Python clients need a library that has
to be compiled.
"""

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.security.gss_library import GssMissingError, gss_library
from headrace.testing.cluster import Cluster
from tests.compat import prepare
from tests.compat.clients.external import External
from tests.compat.clients.face import Client, Record, RefusedError, eventually
from tests.compat.prepare import UnavailableError
from tests.security.certificates import LOCAL, Authority
from tests.security.kdc import REALM, Kdc, jaas, realm_of_this_process

pytestmark = [pytest.mark.kerberos, pytest.mark.timeout(600)]

CLIENTS = [pytest.param("java", marks=pytest.mark.java), pytest.param("sarama", marks=pytest.mark.golang)]


@dataclass
class Place:
    """A broker and the realm that it is in."""

    bootstrap: str
    folder: Path
    kdc: Kdc

    def connect(self, name: str, user: str, patch: pytest.MonkeyPatch) -> Client:
        keytab = self.kdc.keytab(user)
        authority = str(self.folder / "ca.pem")
        given = {
            "mechanism": "GSSAPI",
            "username": f"{user}@{REALM}",
            "password": str(keytab),
            "ca": authority,
        }
        java = {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": authority,
            "sasl.kerberos.service.name": "kafka",
            "sasl.jaas.config": jaas(keytab, user),
        }
        patch.setenv("COMPAT_SECURITY", json.dumps(given))
        patch.setenv("COMPAT_SECURITY_JAVA", json.dumps(java))
        try:
            return External(self._command(name))
        except UnavailableError as reason:
            pytest.skip(str(reason))

    def _command(self, name: str) -> list[str]:
        if name == "sarama":
            return [str(prepare.go_program()), name, self.bootstrap]
        flags = ("-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        realm = f"-Djava.security.krb5.conf={self.kdc.environment['KRB5_CONFIG']}"
        command = prepare.java_command(*flags, realm, classes=prepare.java_program())
        return [*command, "Compat", self.bootstrap, "classic"]


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    try:
        gss_library()
        with realm_of_this_process(tmp_path_factory.mktemp("kdc")) as kdc:
            yield kdc
    except (UnavailableError, GssMissingError) as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def place(kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("secure")
    authority = Authority()
    authority.write(folder / "ca.pem")
    authority.sign("node", LOCAL).write(folder / "node.pem")
    settings = {
        "listeners": "SASL_SSL://localhost:0",
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.sasl_ssl.gssapi.sasl.jaas.config": jaas(
            kdc.keytab("kafka/localhost"), "kafka/localhost"
        ),
        "sasl.kerberos.principal.to.local.rules": "RULE:[2:$1](kafka),RULE:[1:$1](alice)",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "node.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "group.initial.rebalance.delay.ms": "0",
    }
    with Cluster(settings=settings) as cluster:
        yield Place(cluster.bootstrap_servers, folder, kdc)


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_logs_in_by_its_keys(place: Place, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client = place.connect(name, "alice", monkeypatch)
    try:
        topic = f"t-{uuid.uuid4().hex[:8]}"
        client.create_topic(topic, 1, {})
        records = [Record(0, 1_700_000_000_000 + at, b"k", b"%d" % at) for at in range(20)]
        assert client.produce(topic, records, "none") == list(range(20))
        client.join("m", topic, topic)
        eventually(lambda: len(client.taken("m")) == 20, "the group's records")
        client.leave("m")
    finally:
        client.close()


@pytest.mark.parametrize(
    "name", [pytest.param("java", marks=[pytest.mark.java, pytest.mark.slow]), CLIENTS[1]]
)
def test_who_is_no_user_is_told(place: Place, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is in the realm, and whom no rule gives a name."""
    client = place.connect(name, "mallory", monkeypatch)
    try:
        with pytest.raises((RefusedError, AssertionError), match=r"SASL|uthentication|client has run out"):
            client.topics()
    finally:
        client.close()
