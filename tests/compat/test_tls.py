"""TLS as others speak it: stock clients with and without certificates of their own, and what they are told
when something is wrong."""

import asyncio
import contextlib
import socket
import ssl
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from cryptography import x509

import headrace
from headrace.cli.main import cli
from headrace.transport.system_network import free_ports
from tests.compat import prepare
from tests.compat.brokers import HeadraceBroker
from tests.compat.clients.face import eventually
from tests.security.certificates import LOCAL, Authority

STORE_PASSWORD = "store-password"
REFUSED_MS = 10_000  # some refusals are tried again for so long


@dataclass(frozen=True)
class Place:
    """A broker with a listener for everybody and one for who has a certificate."""

    folder: Path
    authority: Authority
    broker: HeadraceBroker
    open_port: int
    mutual_port: int
    misnamed_port: int

    @property
    def ca(self) -> str:
        return str(self.folder / "ca.pem")

    @property
    def bootstrap(self) -> str:
        return f"localhost:{self.open_port}"

    @property
    def mutual(self) -> str:
        return f"localhost:{self.mutual_port}"

    def client_files(self, name: str = "client") -> tuple[str, str]:
        """Certificate and key of a client of this name."""
        certificate, key = self.authority.sign(name).write_apart(self.folder, name)
        return str(certificate), str(key)

    def librdkafka(self, **more: Any) -> dict[str, Any]:
        settings = {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SSL",
            "ssl.ca.location": self.ca,
        }
        return settings | {name.replace("_", "."): value for name, value in more.items()}

    def own(self, **more: Any) -> dict[str, Any]:
        """Settings of headrace's clients, which are Kafka's."""
        settings = {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.ca,
        }
        return settings | {name.replace("_", "."): value for name, value in more.items()}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority()
    authority.write(folder / "ca.pem")
    server = authority.sign("broker", LOCAL).write(folder / "server.pem", "key-password")
    misnamed = authority.sign("broker", ["elsewhere.example"]).write(folder / "misnamed.pem")
    open_port, mutual_port, misnamed_port = free_ports(3)
    settings = {
        "listeners": f"SSL://localhost:{open_port},MUTUAL://localhost:{mutual_port},"
        f"MISNAMED://localhost:{misnamed_port}",
        "listener.security.protocol.map": "SSL:SSL,MUTUAL:SSL,MISNAMED:SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(server),
        "ssl.key.password": "key-password",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.misnamed.ssl.keystore.location": str(misnamed),
        "ssl.principal.mapping.rules": "RULE:^CN=(.*?)$/$1/L,DEFAULT",
    }
    with HeadraceBroker(folder / "data", settings) as broker:
        broker.start()
        yield Place(folder, authority, broker, open_port, mutual_port, misnamed_port)
        broker.stop()


@pytest.fixture
def topic(place: Place) -> str:
    name = f"t-{uuid.uuid4().hex[:12]}"
    admin = AdminClient(place.librdkafka())
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
    return name


def round_trip(settings: dict[str, Any], topic: str, count: int = 100, size: int = 1_000) -> None:
    """Produce and consume with librdkafka."""
    failures: list[KafkaError] = []
    producer = Producer(settings)
    for at in range(count):
        producer.produce(
            topic,
            key=b"%d" % at,
            value=b"v" * size,
            on_delivery=lambda e, _: failures.append(e) if e else None,
        )
    assert producer.flush(60) == 0
    assert not failures
    consumer = Consumer(settings | {"group.id": f"g-{topic}", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    keys: list[bytes] = []

    def has_all() -> bool:
        for message in consumer.consume(1000, 0.2):
            assert message.error() is None
            keys.append(message.key())
        return len(keys) >= count

    eventually(has_all, "records")
    consumer.close()
    assert keys == [b"%d" % at for at in range(count)]


def test_confluent_kafka(place: Place, topic: str) -> None:
    round_trip(place.librdkafka(), topic)


def test_confluent_kafka_with_a_certificate(place: Place, topic: str) -> None:
    certificate, key = place.client_files("Alice")
    round_trip(
        place.librdkafka(
            bootstrap_servers=place.mutual, ssl_certificate_location=certificate, ssl_key_location=key
        ),
        topic,
    )


def test_large_batches_go_through(place: Place, topic: str) -> None:
    """Files are read and encrypted in pieces, and many pieces do not fit the kernel's buffers."""
    round_trip(place.librdkafka(), topic, count=300, size=100_000)


def test_kafka_python(place: Place, topic: str) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    settings = {"bootstrap_servers": place.bootstrap, "security_protocol": "SSL", "ssl_cafile": place.ca}
    producer = KafkaProducer(**settings)
    producer.send(topic, b"hello").get(30)
    producer.close()
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", consumer_timeout_ms=60_000, **settings)
    assert next(consumer).value == b"hello"
    consumer.close()


def test_aiokafka(place: Place, topic: str) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.helpers import create_ssl_context

    async def run() -> None:
        certificate, key = place.client_files("aio")
        settings: dict[str, Any] = {
            "bootstrap_servers": place.mutual,
            "security_protocol": "SSL",
            "ssl_context": create_ssl_context(cafile=place.ca, certfile=certificate, keyfile=key),
        }
        async with AIOKafkaProducer(**settings) as producer:
            await producer.send_and_wait(topic, b"hello")
        async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **settings) as consumer:
            assert (await asyncio.wait_for(consumer.getone(), 60)).value == b"hello"

    asyncio.run(run())


def own_round_trip(settings: dict[str, Any], topic: str) -> None:
    with headrace.Producer(settings) as producer:
        producer.send(topic, b"hello").result(30)
    with headrace.Consumer(settings, group_id=f"g-{topic}", auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        seen: list[Any] = []

        def has_it() -> bool:
            seen.extend(consumer.poll(200))
            return bool(seen)

        eventually(has_it, "a record")
        assert seen[0].value == b"hello"


def test_own_clients(place: Place, topic: str) -> None:
    own_round_trip(place.own(), topic)


def test_own_clients_with_a_certificate_in_pkcs12(place: Place, topic: str) -> None:
    keys, trusted = place.folder / "client.p12", place.folder / "ca.p12"
    keys.write_bytes(place.authority.sign("own").pkcs12(STORE_PASSWORD))
    trusted.write_bytes(place.authority.pkcs12(STORE_PASSWORD))
    settings = {
        "bootstrap.servers": place.mutual,
        "security.protocol": "SSL",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(keys),
        "ssl.keystore.password": STORE_PASSWORD,
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": str(trusted),
        "ssl.truststore.password": STORE_PASSWORD,
    }
    own_round_trip(settings, topic)


def test_own_clients_with_certificates_as_text(place: Place, topic: str) -> None:
    client = place.authority.sign("inline")
    settings = {
        "bootstrap.servers": place.mutual,
        "security.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": client.key_pem("secret"),
        "ssl.key.password": "secret",
        "ssl.keystore.certificate.chain": client.chain_pem,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": place.authority.pem,
    }
    own_round_trip(settings, topic)


# What is wrong is told


def refusal(settings: dict[str, Any]) -> str:
    with (
        headrace.Admin(settings, default_api_timeout_ms=REFUSED_MS) as admin,
        pytest.raises(headrace.ClientError) as told,
    ):
        admin.list_topics()
    return str(told.value)


def test_a_client_that_does_not_trust_the_broker_says_so(place: Place) -> None:
    other = Authority("other").write(place.folder / "other.pem")
    assert "certificate is not accepted" in refusal(place.own(ssl_truststore_location=str(other)))


def test_a_certificate_of_another_host_is_refused_unless_names_are_not_checked(place: Place) -> None:
    misnamed = place.own(bootstrap_servers=f"localhost:{place.misnamed_port}")
    assert "certificate is not accepted: Hostname mismatch" in refusal(misnamed)
    with headrace.Admin(misnamed | {"ssl.endpoint.identification.algorithm": ""}) as admin:
        admin.list_topics()


def test_a_client_without_a_certificate_is_told_that_it_needs_one(place: Place) -> None:
    assert "asks for a certificate: give ssl.keystore.*" in refusal(place.own(bootstrap_servers=place.mutual))
    eventually(lambda: "it shows no certificate" in place.broker.log.read_text(), "a line of the broker")


def test_an_expired_certificate_is_refused_and_told(place: Place) -> None:
    expired = place.authority.sign("late", valid_days=-1).write(place.folder / "late.pem")
    told = refusal(
        place.own(bootstrap_servers=place.mutual, ssl_keystore_type="PEM", ssl_keystore_location=str(expired))
    )
    assert "this side's certificate has expired" in told
    eventually(lambda: "certificate has expired" in place.broker.log.read_text(), "a line of the broker")


def test_a_strangers_certificate_is_refused(place: Place) -> None:
    strange = Authority("strange").sign("eve").write(place.folder / "eve.pem")
    told = refusal(
        place.own(bootstrap_servers=place.mutual, ssl_keystore_type="PEM", ssl_keystore_location=str(strange))
    )
    assert "does not trust this side's certificate" in told


def test_a_plain_client_is_told_nothing_and_the_broker_says_why(place: Place) -> None:
    assert "closed the connection" in refusal({"bootstrap.servers": place.bootstrap})
    eventually(lambda: "does not speak it" in place.broker.log.read_text(), "a line of the broker")


# Java


@pytest.mark.java
@pytest.mark.timeout(300)
def test_javas_console_clients_with_certificates_of_both_sides(place: Place, topic: str) -> None:
    keys, trusted = place.folder / "java.p12", place.folder / "java-ca.p12"
    keys.write_bytes(place.authority.sign("java").pkcs12(STORE_PASSWORD))
    trusted.write_bytes(place.authority.pkcs12(STORE_PASSWORD))
    properties = place.folder / "client.properties"
    properties.write_text(
        "security.protocol=SSL\n"
        f"ssl.keystore.type=PKCS12\nssl.keystore.location={keys}\nssl.keystore.password={STORE_PASSWORD}\n"
        f"ssl.key.password={STORE_PASSWORD}\n"
        f"ssl.truststore.type=PKCS12\nssl.truststore.location={trusted}\nssl.truststore.password={STORE_PASSWORD}\n"
    )
    try:
        java = prepare.java_command()
    except prepare.UnavailableError as reason:
        pytest.skip(str(reason))
    where = ["--bootstrap-server", place.mutual, "--topic", topic]
    produced = subprocess.run(
        [*java, "org.apache.kafka.tools.ConsoleProducer", *where, "--command-config", str(properties)],
        input=b"from java\n",
        capture_output=True,
        timeout=100,
    )
    assert produced.returncode == 0, produced.stderr.decode()
    consumed = subprocess.run(
        [
            *[*java, "org.apache.kafka.tools.consumer.ConsoleConsumer", *where, "--from-beginning"],
            *["--max-messages", "1", "--timeout-ms", "60000", "--command-config", str(properties)],
        ],
        capture_output=True,
        timeout=100,
    )
    assert b"from java" in consumed.stdout, consumed.stderr.decode()


# The command line


def test_the_command_line_takes_kafkas_client_properties(place: Place, topic: str) -> None:
    properties = place.folder / "cli.properties"
    properties.write_text(
        f"bootstrap.servers={place.bootstrap}\nsecurity.protocol=SSL\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={place.ca}\nacks=all\n"
    )
    runner = CliRunner()
    made = runner.invoke(cli, ["produce", topic, "--command-config", str(properties)], input="by hand\n")
    assert made.exit_code == 0, made.output
    read = runner.invoke(
        cli,
        ["consume", topic, "--from-beginning", "--max-messages", "1", "--command-config", str(properties)],
    )
    assert "by hand" in read.stdout, read.output
    assert topic in runner.invoke(cli, ["topic", "list", "--command-config", str(properties)]).stdout


def test_a_command_config_with_a_name_that_no_client_has_is_refused(place: Place) -> None:
    properties = place.folder / "wrong.properties"
    properties.write_text("security.protocol=SSL\nssl.truststore.locaton=ca.pem\n")
    told = CliRunner().invoke(cli, ["topic", "list", "--command-config", str(properties)])
    assert told.exit_code == 1
    assert "did you mean ssl.truststore.location? (" in told.output


# Stores that are replaced while the broker runs


def serial_at(place: Place, port: int) -> int:
    """Of the certificate that a newcomer is shown."""
    return x509.load_pem_x509_certificate(
        ssl.get_server_certificate(("localhost", port)).encode()
    ).serial_number


def alter_keystore(place: Place, location: Path) -> None:
    admin = AdminClient(place.librdkafka())
    change = ConfigEntry(
        "listener.name.misnamed.ssl.keystore.location",
        str(location),
        incremental_operation=AlterConfigOpType.SET,
    )
    resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[change])
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(30)


def test_a_key_store_is_replaced_by_a_setting(place: Place) -> None:
    port, former = place.misnamed_port, serial_at(place, place.misnamed_port)
    new = place.authority.sign("broker", ["elsewhere.example"])
    alter_keystore(place, new.write(place.folder / "renewed.pem"))
    eventually(lambda: serial_at(place, port) == new.certificate.serial_number, "the new certificate")
    assert new.certificate.serial_number != former

    wrong = place.authority.sign("somebody else", ["elsewhere.example"]).write(place.folder / "wrong.pem")
    with pytest.raises(
        KafkaException, match="is for CN=somebody else, and the former was for CN=broker"
    ) as told:
        alter_keystore(place, wrong)
    assert told.value.args[0].code() == KafkaError.INVALID_REQUEST
    (place.folder / "broken.pem").write_text("nothing")
    with pytest.raises(KafkaException, match="cannot be read as PKCS12"):
        alter_keystore(place, place.folder / "broken.pem")
    assert serial_at(place, port) == new.certificate.serial_number


def test_a_key_store_is_replaced_when_its_file_is(place: Place) -> None:
    new = place.authority.sign("broker", LOCAL)
    new.write(place.folder / "server.new", "key-password").replace(place.folder / "server.pem")
    eventually(
        lambda: serial_at(place, place.open_port) == new.certificate.serial_number, "the new certificate"
    )


def test_passwords_and_keys_are_never_told(place: Place) -> None:
    admin = AdminClient(place.librdkafka())
    resource = ConfigResource(ConfigResource.Type.BROKER, "1")
    told = admin.describe_configs([resource])[resource].result(30)
    assert told["ssl.keystore.location"].value == str(place.folder / "server.pem")
    assert told["ssl.key.password"].value is None
    assert "key-password" not in place.broker.log.read_text().replace("--set", "")


# Who somebody is, and who only begins


def test_a_certificates_name_is_the_principal_by_the_rules(place: Place, topic: str) -> None:
    certificate, key = place.client_files("Alice")
    admin = AdminClient(
        place.librdkafka(
            bootstrap_servers=place.mutual, ssl_certificate_location=certificate, ssl_key_location=key
        )
    )
    change = ConfigEntry("retention.ms", "1000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[change])
    admin.incremental_alter_configs([resource])[resource].result(30)
    eventually(lambda: "(User:alice, listener MUTUAL)" in place.broker.log.read_text(), "the change's line")


def test_five_hundred_half_done_handshakes_leave_room_for_others(place: Place, topic: str) -> None:
    known = AdminClient(place.librdkafka())
    known.list_topics(timeout=30)
    hello = client_hello()
    with contextlib.ExitStack() as stack:
        for _ in range(500):
            half_done = stack.enter_context(socket.create_connection(("localhost", place.open_port)))
            half_done.sendall(hello)
        known.list_topics(timeout=30)
        round_trip(place.librdkafka(), topic, count=10)


def client_hello() -> bytes:
    """How a client begins that never goes on."""
    outgoing = ssl.MemoryBIO()
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).wrap_bio(
        ssl.MemoryBIO(), outgoing, server_hostname="localhost"
    )
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()
