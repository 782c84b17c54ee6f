"""Clients in other languages where TLS and a login are asked for: franz-go, sarama, kafkajs and Java.

One listener with SASL_SSL takes all mechanisms, and an authorizer lets `alice` use her own topics and group
only. Each client makes a topic, writes, reads and consumes in a group; a wrong password and a foreign topic
are refused. The short form has one mechanism a client, the others are slow.
"""

import json
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headrace.clients import AclBinding, AclBindingFilter, Admin, ErrorCode, UserScramCredentialUpsertion
from headrace.settings.not_yet import STANDARD_AUTHORIZER
from headrace.testing.cluster import Cluster
from tests.compat import prepare
from tests.compat.clients.external import External
from tests.compat.clients.face import Client, Record, RefusedError, eventually
from tests.compat.clients.roster import ROSTER
from tests.compat.prepare import UnavailableError
from tests.security.certificates import LOCAL, Authority
from tests.security.sasl.tokens import AUDIENCE, ISSUER, claims, key_set, rsa_key, signed

PASSWORDS = {"PLAIN": "plain-secret", "SCRAM-SHA-256": "scram-256", "SCRAM-SHA-512": "scram-512"}
MECHANISMS = (*PASSWORDS, "OAUTHBEARER")
MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
SHORT = {"franz": "SCRAM-SHA-512", "sarama": "PLAIN", "kafkajs": "SCRAM-SHA-256", "java": "OAUTHBEARER"}
MARKS = {"franz": "golang", "sarama": "golang", "kafkajs": "nodejs", "java": "java"}
WRONG = {
    "franz": "sasl|SASL",
    "sarama": "SASL|EOF|client has run out",
    "kafkajs": "SASL",
    "java": "uthentication",
}
"""What each says of a wrong password; sarama, having asked every broker in vain, may say only that."""


@dataclass
class Place:
    """A broker, and what its clients need."""

    bootstrap: str
    folder: Path
    admin: dict[str, Any]

    def environment(self, mechanism: str, password: str = "") -> dict[str, str]:
        """The same login for programs in Go and Node, and in Java's words."""
        secret = password or self._secret(mechanism)
        given = {
            "mechanism": mechanism,
            "username": "alice",
            "password": secret,
            "ca": str(self.folder / "ca.pem"),
        }
        return {
            "COMPAT_SECURITY": json.dumps(given),
            "COMPAT_SECURITY_JAVA": json.dumps(self._java(mechanism, secret)),
        }

    def _secret(self, mechanism: str) -> str:
        return signed(claims(time.time())) if mechanism == "OAUTHBEARER" else PASSWORDS[mechanism]

    def _java(self, mechanism: str, secret: str) -> dict[str, str]:
        words = f'username="alice" password="{secret}"'
        more = {}
        if mechanism == "OAUTHBEARER":
            token = self.folder / f"{uuid.uuid4().hex}.token"
            token.write_text(secret)
            words, more = (
                "",
                {
                    "sasl.oauthbearer.token.endpoint.url": token.as_uri(),
                    "sasl.login.callback.handler.class": HANDLER,
                },
            )
        return {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.folder / "ca.pem"),
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f"{MODULES[mechanism]} required {words};",
            **more,
        }


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("secure")
    authority = Authority()
    authority.write(folder / "ca.pem")
    authority.sign("node", LOCAL).write(folder / "node.pem")
    (folder / "keys.json").write_bytes(key_set(rsa_key()))
    users = f'user_admin="admin-secret" user_alice="{PASSWORDS["PLAIN"]}"'
    settings = {
        "listeners": "SASL_SSL://localhost:0",
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            f'{MODULES["PLAIN"]} required username="admin" password="admin-secret" {users};'
        ),
        "sasl.oauthbearer.jwks.endpoint.url": (folder / "keys.json").as_uri(),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "node.pem"),
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:admin;User:ANONYMOUS",
        "group.initial.rebalance.delay.ms": "0",
    }
    with Cluster(settings=settings) as cluster:
        admin = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(folder / "ca.pem"),
            "sasl.mechanism": "PLAIN",
            "sasl.username": "admin",
            "sasl.password": "admin-secret",
        }
        with Admin(admin) as client:
            _prepare(client)
        yield Place(cluster.bootstrap_servers, folder, admin)


def _prepare(admin: Admin) -> None:
    """Who there is, and what alice may do: all with what begins with her name."""
    admin.alter_user_scram_credentials(
        [
            UserScramCredentialUpsertion("alice", password, mechanism)
            for mechanism, password in PASSWORDS.items()
            if mechanism != "PLAIN"
        ]
    )
    admin.create_acls(
        [
            AclBinding("User:alice", "all", "topic", "alice.", "prefixed"),
            AclBinding("User:alice", "all", "group", "*"),
        ]
    )
    admin.create_topic("others", partitions=1)


Connect = Callable[..., Client]


@pytest.fixture
def connect(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connect]:
    opened: list[Client] = []

    def start(name: str, mechanism: str, password: str = "") -> Client:
        for variable, value in place.environment(mechanism, password).items():
            monkeypatch.setenv(variable, value)
        try:
            client = _open(name, place)
        except UnavailableError as reason:
            pytest.skip(str(reason))
        opened.append(client)
        return client

    yield start
    for each in opened:
        each.close()


def _open(name: str, place: Place) -> Client:
    if name != "java":
        (entry,) = [each for each in ROSTER if each.name == name]
        return entry.open(place.bootstrap)
    # Java reads tokens of no file that it is not told to (CVE-2025-27817).
    allowed = [path.as_uri() for path in place.folder.glob("*.token")]
    flags = ("-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    allow = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={','.join(allowed)}"
    command = prepare.java_command(*flags, allow, classes=prepare.java_program())
    return External([*command, "Compat", place.bootstrap, "classic"])


def _cases() -> Iterator[Any]:
    for name, first in SHORT.items():
        for mechanism in MECHANISMS:
            marks = [getattr(pytest.mark, MARKS[name])]
            if mechanism != first:
                marks.append(pytest.mark.slow)
            yield pytest.param(name, mechanism, id=f"{name}-{mechanism}", marks=marks)


@pytest.mark.parametrize(("name", "mechanism"), list(_cases()))
def test_a_client_logs_in_over_tls_and_uses_what_it_may(
    connect: Connect, place: Place, name: str, mechanism: str
) -> None:
    client = connect(name, mechanism)
    topic = f"alice.{uuid.uuid4().hex[:8]}"
    client.create_topic(topic, 1, {})
    records = [Record(0, 1_700_000_000_000 + at, b"k", b"%d" % at) for at in range(20)]
    assert client.produce(topic, records, "none") == list(range(20))
    assert [each.value for each in client.consume(topic, {0: 20})] == [each.value for each in records]
    client.join("m", topic, topic)
    eventually(lambda: len(client.taken("m")) == 20, "the group's records")
    client.commit("m")
    assert client.committed(topic, topic) == {0: 20}
    client.leave("m")
    with pytest.raises((RefusedError, AssertionError)) as refused:
        client.produce("others", records[:1], "none")
    assert _is_refusal(refused.value), refused.value
    with _without_writing(place, topic):
        eventually(lambda: not _can_write(client, topic), "a refusal of what was allowed before")


@contextmanager
def _without_writing(place: Place, topic: str) -> Iterator[None]:
    """While its client works, alice loses a right."""
    with Admin(place.admin) as admin:
        admin.create_acls(AclBinding("User:alice", "write", "topic", topic, permission="deny"))
        try:
            yield
        finally:
            admin.delete_acls(AclBindingFilter(resource_type="topic", resource_name=topic, pattern="literal"))


def _can_write(client: Client, topic: str) -> bool:
    try:
        client.produce(topic, [Record(0, 1_700_000_000_000, b"k", b"more")], "none")
    except (RefusedError, AssertionError) as refused:
        if not _is_refusal(refused):
            raise
        return False
    return True


def _is_refusal(error: BaseException) -> bool:
    return getattr(error, "code", 0) == ErrorCode.TOPIC_AUTHORIZATION_FAILED or "uthoriz" in str(error)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=getattr(pytest.mark, mark)) for name, mark in MARKS.items()]
)
def test_a_wrong_password_is_told(connect: Connect, name: str) -> None:
    mechanism = "SCRAM-SHA-512" if name == "java" else SHORT[name]
    with pytest.raises((RefusedError, AssertionError), match=WRONG[name]) as told:
        connect(name, mechanism, "hunter2").topics()
    assert "hunter2" not in str(told.value)
