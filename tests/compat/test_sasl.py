"""Logins of clients and tools that we did not write: each mechanism, wrong passwords, sessions that end.

The broker has one listener, which takes all mechanisms. Its first SCRAM user is made by a request of an
administrator who logs in by PLAIN, as Kafka's tools do it.
"""

import asyncio
import re
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka import KafkaConsumer, KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider

from headrace.clients import Admin, AuthenticationError
from headrace.clients import Consumer as OwnConsumer
from headrace.clients import Producer as OwnProducer
from headrace.testing.cluster import Cluster
from headrace.transport.system_network import free_ports
from tests.compat import prepare
from tests.compat.brokers import ApacheKafkaBroker
from tests.compat.clients.external import Program
from tests.compat.clients.face import eventually
from tests.compat.prepare import UnavailableError
from tests.security.sasl.tokens import AUDIENCE, ISSUER, claims, key_set, rsa_key, signed

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
    "sasl.oauthbearer.expected.issuer": ISSUER,
    "sasl.oauthbearer.expected.audience": AUDIENCE,
    "delegation.token.secret.key": "the cluster's secret",
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{MODULE} required username="admin" password="admin-secret" user_admin="admin-secret" '
        'user_alice="alice-secret";'
    ),
    "group.initial.rebalance.delay.ms": "0",
}
PASSWORDS = {"PLAIN": "alice-secret", "SCRAM-SHA-256": "scram-256", "SCRAM-SHA-512": "scram-512"}
MECHANISMS = list(PASSWORDS)
Login = dict[str, Any]


def login(bootstrap: str, mechanism: str, password: str | None = None, user: str = "alice") -> Login:
    """In librdkafka's words."""
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": PASSWORDS[mechanism] if password is None else password,
    }


def _add_users(admin: AdminClient) -> None:
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        name = mechanism.name.replace("_", "-")
        made = UserScramCredentialUpsertion(
            "alice", ScramCredentialInfo(mechanism, 4096), PASSWORDS[name].encode()
        )
        admin.alter_user_scram_credentials([made])["alice"].result(30)


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    keys = tmp_path_factory.mktemp("issuer") / "keys.json"
    keys.write_bytes(key_set(rsa_key()))
    settings = SETTINGS | {"sasl.oauthbearer.jwks.endpoint.url": keys.as_uri()}
    with Cluster(settings=settings) as cluster:
        _add_users(AdminClient(login(cluster.bootstrap_servers, "PLAIN", "admin-secret", "admin")))
        yield cluster.bootstrap_servers


@pytest.fixture
def topic() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"


def _confluent(given: Login, topic: str) -> bytes:
    producer = Producer(given)
    producer.produce(topic, b"hello")
    assert producer.flush(30) == 0
    consumer = Consumer(given | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[Message] = []

    def read() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message)
        return bool(found)

    eventually(read, "the record")
    consumer.close()
    return bytes(found[0].value())


def _kafka_python(given: Login, topic: str) -> bytes:
    words = {
        "bootstrap_servers": given["bootstrap.servers"],
        "security_protocol": given["security.protocol"],
        "sasl_mechanism": given["sasl.mechanism"],
        "sasl_plain_username": given["sasl.username"],
        "sasl_plain_password": given["sasl.password"],
    }
    producer = KafkaProducer(**words)
    producer.send(topic, b"hello").get(30)
    producer.close()
    consumer = KafkaConsumer(topic, group_id=topic, auto_offset_reset="earliest", **words)
    record = next(iter(consumer))
    consumer.close()
    return bytes(record.value)


def _aiokafka(given: Login, topic: str) -> bytes:
    words = {
        "bootstrap_servers": given["bootstrap.servers"],
        "security_protocol": given["security.protocol"],
        "sasl_mechanism": given["sasl.mechanism"],
        "sasl_plain_username": given["sasl.username"],
        "sasl_plain_password": given["sasl.password"],
    }

    async def run() -> bytes:
        async with AIOKafkaProducer(**words) as producer:
            await producer.send_and_wait(topic, b"hello")
        consumer = AIOKafkaConsumer(topic, group_id=topic, auto_offset_reset="earliest", **words)
        async with consumer:
            return bytes((await consumer.getone()).value)

    return asyncio.run(asyncio.wait_for(run(), 60))


def _headrace(given: Login, topic: str) -> bytes:
    with OwnProducer(given) as producer:
        producer.send(topic, b"hello").result(30)
    with OwnConsumer(given, group_id=topic, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        found: list[bytes] = []
        eventually(lambda: found.extend(each.value for each in consumer.poll(0.2)) or bool(found), "a record")
    return bytes(found[0])


CLIENTS: dict[str, Callable[[Login, str], bytes]] = {
    "confluent": _confluent,
    "kafka-python": _kafka_python,
    "aiokafka": _aiokafka,
    "headrace": _headrace,
}


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("name", CLIENTS)
def test_produce_and_consume(name: str, mechanism: str, bootstrap: str, topic: str) -> None:
    assert CLIENTS[name](login(bootstrap, mechanism), topic) == b"hello"


def _token(**more: Any) -> str:
    return signed(claims(time.time(), **more))


class TokenProvider(AbstractTokenProvider):
    def token(self) -> str:
        return _token()


def test_tokens_of_an_issuer_by_librdkafka(bootstrap: str, topic: str) -> None:
    given = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (_token(), time.time() + 3600),
    }
    assert _confluent(given, topic) == b"hello"


@pytest.mark.parametrize("wrong", [{"aud": "other"}, {"exp": 1_700_000_000}], ids=["foreign", "expired"])
def test_a_wrong_token_is_told_to_librdkafka(bootstrap: str, wrong: dict[str, Any]) -> None:
    seen: list[KafkaError] = []
    given = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (_token(**wrong), time.time() + 3600),
    }
    producer = Producer(given, error_cb=seen.append)

    def is_told() -> bool:
        producer.poll(0.1)
        return any(each.code() == KafkaError._AUTHENTICATION for each in seen)

    eventually(is_told, "an authentication error")


def test_tokens_of_an_issuer_by_kafka_python(bootstrap: str, topic: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=TokenProvider(),
    )
    assert producer.send(topic, b"hello").get(30).offset == 0
    producer.close()


def test_tokens_of_an_issuer_by_our_own_client(bootstrap: str, topic: str) -> None:
    given = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.provider": _token,
    }
    assert _headrace(given, topic) == b"hello"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_told_to_librdkafka(mechanism: str, bootstrap: str) -> None:
    seen: list[KafkaError] = []
    given = login(bootstrap, mechanism, "wrong")
    producer = Producer(given, error_cb=seen.append)

    def is_told() -> bool:
        producer.poll(0.1)
        return any(each.code() == KafkaError._AUTHENTICATION for each in seen)

    eventually(is_told, "an authentication error")
    assert "wrong" not in " ".join(each.str() for each in seen)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_told_to_our_own_client_at_once(mechanism: str, bootstrap: str) -> None:
    """It does not try again until its time is up: that would be longer than this test may take."""
    with (
        pytest.raises(AuthenticationError) as failure,
        Admin(login(bootstrap, mechanism, "hunter2"), default_api_timeout_ms=3_600_000) as admin,
    ):
        admin.describe_cluster()
    assert "hunter2" not in str(failure.value)


def test_users_are_described_and_removed(bootstrap: str) -> None:
    admin = AdminClient(login(bootstrap, "PLAIN", "admin-secret", "admin"))
    name = f"u-{uuid.uuid4().hex[:6]}"
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
    admin.alter_user_scram_credentials([UserScramCredentialUpsertion(name, info, b"pw")])[name].result(30)
    described = admin.describe_user_scram_credentials([name])[name].result(60)
    (found,) = described.scram_credential_infos
    assert (found.mechanism, found.iterations) == (ScramMechanism.SCRAM_SHA_512, 8192)
    gone = UserScramCredentialDeletion(name, ScramMechanism.SCRAM_SHA_512)
    admin.alter_user_scram_credentials([gone])[name].result(30)
    everybody = admin.describe_user_scram_credentials().result(30)
    assert name not in everybody


# Apache Kafka's own tools

Tool = Callable[..., str]


@pytest.fixture(scope="module")
def tool(bootstrap: str) -> Iterator[Tool]:
    try:
        program = Program([*prepare.java_command(classes=prepare.java_program()), "Compat"])
    except UnavailableError as reason:
        pytest.skip(str(reason))

    def run(main: str, *arguments: str, stdin: str = "", code: int = 0) -> str:
        words = [*arguments, "--bootstrap-server", bootstrap]
        done = program.ask("tool", main=main, arguments=words, stdin=stdin)
        said = str(done["out"]) + str(done["err"])
        assert done["code"] == code, f"{main} ended with {done['code']}:\n{said}"
        return said

    yield run
    program.close()


def java_login(folder: Path, mechanism: str, user: str, password: str) -> str:
    module = MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    path = folder / f"{uuid.uuid4().hex}.properties"
    path.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={module} required username="{user}" password="{password}";\n'
    )
    return str(path)


@pytest.mark.java
def test_kafka_configs_makes_and_removes_users_who_can_log_in(
    tool: Tool, tmp_path: Path, topic: str, bootstrap: str
) -> None:
    admin = java_login(tmp_path, "PLAIN", "admin", "admin-secret")
    config = ("kafka.admin.ConfigCommand", "--command-config", admin, "--entity-type", "users")
    entity = ("--entity-name", topic)
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        made = f"{mechanism}=[iterations=8192,password=p-{mechanism}]"
        assert "Completed updating config for user" in tool(*config, *entity, "--alter", "--add-config", made)
    described = tool(*config, *entity, "--describe")
    assert "SCRAM-SHA-256=iterations=8192" in described
    assert "SCRAM-SHA-512=iterations=8192" in described
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        own = java_login(tmp_path, mechanism, topic, f"p-{mechanism}")
        console = "org.apache.kafka.tools.ConsoleProducer"
        tool(console, "--command-config", own, "--topic", topic, stdin=f"by {mechanism}\n")
    own = java_login(tmp_path, "SCRAM-SHA-256", topic, "p-SCRAM-SHA-256")
    said = tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--command-config", own, "--topic", topic, "--from-beginning", "--max-messages", "2"),
        *("--timeout-ms", "60000"),
    )
    assert "by SCRAM-SHA-256" in said
    assert "by SCRAM-SHA-512" in said
    removed = tool(*config, *entity, "--alter", "--delete-config", "SCRAM-SHA-256")
    assert "Completed updating config for user" in removed
    refused = tool("org.apache.kafka.tools.TopicCommand", "--command-config", own, "--list", code=1)
    assert "invalid credentials with SASL mechanism SCRAM-SHA-256" in refused


@pytest.mark.java
def test_delegation_tokens_of_kafkas_tool_log_in(tool: Tool, tmp_path: Path, topic: str) -> None:
    alice = java_login(tmp_path, "SCRAM-SHA-256", "alice", PASSWORDS["SCRAM-SHA-256"])
    command = ("org.apache.kafka.tools.DelegationTokenCommand", "--command-config", alice)
    made = tool(*command, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:admin")
    token_id, hmac = re.search(r"^(\S{22})\s+(\S{80,})\s+User:alice", made, re.MULTILINE).groups()  # type: ignore[union-attr]
    own = tmp_path / "token.properties"
    own.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        f'sasl.jaas.config={SCRAM_MODULE} required username="{token_id}" password="{hmac}" '
        'tokenauth="true";\n'
    )
    console = "org.apache.kafka.tools.ConsoleProducer"
    tool(console, "--command-config", str(own), "--topic", topic, stdin="by a token\n")
    assert token_id in tool(*command, "--describe", "--owner-principal", "User:alice")
    assert "Completed renew operation" in tool(
        *command, "--renew", "--renew-time-period", "-1", "--hmac", hmac
    )
    assert "Completed expire operation" in tool(
        *command, "--expire", "--expiry-time-period", "-1", "--hmac", hmac
    )
    refused = tool("org.apache.kafka.tools.TopicCommand", "--command-config", str(own), "--list", code=1)
    assert "invalid credentials" in refused


@pytest.mark.java
def test_java_is_told_of_a_wrong_password(tool: Tool, tmp_path: Path) -> None:
    own = java_login(tmp_path, "PLAIN", "alice", "hunter2")
    said = tool("org.apache.kafka.tools.TopicCommand", "--command-config", own, "--list", code=1)
    assert "Authentication failed: Invalid username or password" in said
    assert "hunter2" not in said


# Our own client at Apache Kafka's door


class KafkaWithLogins(ApacheKafkaBroker):
    """Apache Kafka with a SASL listener beside its plain one, whose sessions are short."""

    sasl_bootstrap = ""

    def _format(self, properties: Path) -> None:
        super()._format(properties)
        (port,) = free_ports(1)
        self.sasl_bootstrap = f"127.0.0.1:{port}"
        text = properties.read_text()
        for name in ("listeners", "advertised.listeners"):
            text = text.replace(f"\n{name}=", f"\n{name}=SASL://{self.sasl_bootstrap},")
        text += (
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT\n"
        )
        text += "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512\nconnections.max.reauth.ms=1500\n"
        for mechanism in ("scram-sha-256", "scram-sha-512"):
            text += f"listener.name.sasl.{mechanism}.sasl.jaas.config={SCRAM_MODULE} required;\n"
        users = f'user_alice="{PASSWORDS["PLAIN"]}"'
        text += f"listener.name.sasl.plain.sasl.jaas.config={MODULE} required {users};\n"
        properties.write_text(text)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaWithLogins]:
    with KafkaWithLogins(tmp_path_factory.mktemp("kafka") / "data") as broker:
        try:
            broker.start()
        except UnavailableError as reason:
            pytest.skip(str(reason))
        _add_users(AdminClient({"bootstrap.servers": broker.bootstrap}))
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topic("t", partitions=1, replication_factor=1)
        yield broker
        broker.stop()


@pytest.mark.java
def test_our_client_logs_in_at_apache_kafka_again_and_again(
    kafka: KafkaWithLogins, caplog: pytest.LogCaptureFixture
) -> None:
    """By all mechanisms at once: it is the sessions that take time."""
    with ExitStack() as stack:
        producers = [
            stack.enter_context(OwnProducer(login(kafka.sasl_bootstrap, mechanism), linger_ms=0))
            for mechanism in MECHANISMS
        ]
        began = [producer.send("t", b"0").result(60).timestamp for producer in producers]
        lasted = [0] * len(producers)
        while min(lasted) < 3_500:
            lasted = [
                producer.send("t", b"more").result(60).timestamp - first
                for producer, first in zip(producers, began, strict=True)
            ]
    assert not [each for each in caplog.messages if "logging in again failed" in each]


@pytest.mark.java
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_our_client_believes_apache_kafka_that_its_password_is_wrong(
    kafka: KafkaWithLogins, mechanism: str
) -> None:
    with pytest.raises(AuthenticationError), Admin(login(kafka.sasl_bootstrap, mechanism, "wrong")) as admin:
        admin.describe_cluster()


# Sessions that end


def test_librdkafka_logs_in_again_on_the_same_connection(
    caplog: pytest.LogCaptureFixture, topic: str
) -> None:
    """Some sessions of a second and a half each, and no connection is lost. Shorter ones would not do:
    brokers have a second between two logins. A machine that holds everybody up for the rest of such a
    session says nothing: then longer ones tell."""
    for session_ms in (1_500, 5_000, 15_000):
        caplog.clear()
        lost = _lost_sessions(session_ms, topic, caplog)
        if not lost:
            return
    raise AssertionError(lost)


def _lost_sessions(session_ms: int, topic: str, caplog: pytest.LogCaptureFixture) -> list[str]:
    """What librdkafka and the broker say of sessions that ended, while it writes for some of them."""
    without_tokens = {
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "connections.max.reauth.ms": str(session_ms),
    }
    with Cluster(settings=SETTINGS | without_tokens) as cluster:
        _add_users(AdminClient(login(cluster.bootstrap_servers, "PLAIN", "admin-secret", "admin")))
        seen: list[KafkaError] = []
        producer = Producer(login(cluster.bootstrap_servers, "SCRAM-SHA-256"), error_cb=seen.append)
        times: list[int] = []

        def note(_: object, message: Message) -> None:
            times.append(message.timestamp()[1])

        with caplog.at_level("INFO"):
            while len(times) < 2 or times[-1] - times[0] < 2.6 * session_ms:
                producer.produce(topic, b"x", on_delivery=note)
                assert producer.flush(60) == 0
    told = [each for each in caplog.messages if "session is over" in each or "ILLEGAL_SASL_STATE" in each]
    return [str(each) for each in seen] + told
