"""Logins by Kerberos, with Debian's KDC: keys, tickets, replays, and three nodes whose quorum, replicas and
clients all log in so."""

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.clients import Admin, AuthenticationError, Consumer, Producer
from headrace.node.kerberos_listener import new_gssapi_server
from headrace.security.gss_library import GssLibrary, GssMissingError, GssUnreachableError, gss_library
from headrace.security.sasl.gssapi import GssapiClient, GssapiServer, GssError
from headrace.security.sasl.mechanism import SaslError
from headrace.testing.cluster import Cluster
from tests.compat.prepare import UnavailableError
from tests.security.kdc import REALM, Kdc, jaas, realm_of_this_process

pytestmark = [pytest.mark.kerberos, pytest.mark.timeout(600)]

SERVICE = "kafka/127.0.0.1"


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    """A realm that this process is in."""
    try:
        gss_library()
        with realm_of_this_process(tmp_path_factory.mktemp("kdc")) as kdc:
            yield kdc
    except (UnavailableError, GssMissingError) as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def service(kdc: Kdc) -> Path:
    return kdc.keytab(SERVICE)


@pytest.fixture(scope="module")
def alice(kdc: Kdc) -> Path:
    return kdc.keytab("alice")


@pytest.fixture
def library(kdc: Kdc) -> GssLibrary:
    return gss_library()


def client_of(library: GssLibrary, keytab: Path, name: str = "alice", cache: str = "") -> GssapiClient:
    credential = library.initiator(name, str(keytab), cache or library.new_cache())
    context = library.initiate(credential, "kafka", "127.0.0.1")
    return GssapiClient(context, context.step(b""))


def server_of(library: GssLibrary, keytab: Path, principal: str = "") -> GssapiServer:
    return GssapiServer(library.accept(library.acceptor(str(keytab), principal)), str)


def log_in(client: GssapiClient, server: Any) -> str:
    token: bytes | None = client.first()
    while token is not None:
        token = client.evaluate(server.evaluate(token))
    assert client.is_complete
    assert server.is_complete
    return str(server.authorization_id)


def test_a_ticket_says_who_a_client_is(library: GssLibrary, service: Path, alice: Path) -> None:
    assert library.default_realm() == REALM
    assert log_in(client_of(library, alice), server_of(library, service)) == f"alice@{REALM}"
    one_key = server_of(library, service, f"{SERVICE}@{REALM}")
    assert log_in(client_of(library, alice), one_key) == f"alice@{REALM}"


def test_a_login_that_was_listened_to_is_worth_nothing(
    library: GssLibrary, service: Path, alice: Path
) -> None:
    client, server = client_of(library, alice), server_of(library, service)
    client.first()
    log_in(client, server)
    with pytest.raises(SaslError, match="replay"):
        server_of(library, service).evaluate(client.first())


@pytest.mark.parametrize("token", [b"", b"x", b"\x60\x82\xff\xff", b"NTLMSSP\0", b"\0" * 4096])
def test_what_is_no_ticket_is_refused(library: GssLibrary, service: Path, token: bytes) -> None:
    with pytest.raises(SaslError):
        server_of(library, service).evaluate(token)


def test_tickets_that_were_tampered_with_prove_nothing(
    library: GssLibrary, service: Path, alice: Path
) -> None:
    """Changed, cut and stuffed: whatever the library makes of them, nobody is logged in."""
    chance = random.Random(7)
    first = client_of(library, alice).first()
    for _ in range(500):
        token = bytearray(first)
        at = chance.randrange(len(token))
        match chance.randrange(3):
            case 0:
                token[at] ^= 1 << chance.randrange(8)
            case 1:
                del token[at:]
            case 2:
                token[at : at + chance.randrange(8)] = chance.randbytes(chance.randrange(40))
        server = server_of(library, service)
        with contextlib.suppress(SaslError):
            server.evaluate(bytes(token))
        with contextlib.suppress(SaslError):
            server.evaluate(bytes(token))
        assert not server.is_complete
        assert not server.authorization_id


def test_no_bit_of_a_ticket_can_be_changed(library: GssLibrary, service: Path, alice: Path) -> None:
    first = client_of(library, alice).first()
    for at in range(
        len(first) - 400, len(first), 97
    ):  # what comes before is in the clear, and counts for nothing
        changed = bytearray(first)
        changed[at] ^= 1
        server = server_of(library, service)
        with pytest.raises(SaslError):
            server.evaluate(bytes(changed))


def test_a_ticket_for_another_service_is_refused(kdc: Kdc, library: GssLibrary, alice: Path) -> None:
    other = kdc.keytab("spark/127.0.0.1")
    with pytest.raises(SaslError):
        server_of(library, other).evaluate(client_of(library, alice).first())
    with pytest.raises(GssError, match="No key table entry"):
        library.acceptor(str(other), SERVICE)


def test_keys_that_are_replaced_count_at_once(kdc: Kdc, library: GssLibrary, alice: Path) -> None:
    """The table has old and new keys after `ktadd`; who has a ticket of the old one still comes in."""
    keytab = kdc.keytab("rotated/127.0.0.1")
    credential = library.acceptor(str(keytab))
    cache = library.new_cache()

    def first() -> bytes:
        initiator = library.initiator("alice", str(alice), cache)
        return library.initiate(initiator, "rotated", "127.0.0.1").step(b"")

    old = first()
    kdc.keytab("rotated/127.0.0.1")
    library.destroy_cache(cache)
    for token in (old, first()):
        library.accept(credential).step(token)


def test_without_a_kdc_it_may_be_tried_again(kdc: Kdc, library: GssLibrary, alice: Path) -> None:
    """And who has no key is refused."""
    with pytest.raises(GssError) as refused:
        client_of(library, alice, "bob")
    assert not isinstance(refused.value, GssUnreachableError)
    kdc.stop()
    try:
        with pytest.raises(GssUnreachableError):
            client_of(library, alice)
    finally:
        kdc.start()


def test_a_wrong_line_leaves_the_former_keys_in_force(
    library: GssLibrary, service: Path, alice: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings: dict[str, Any] = {
        "sasl.jaas.config": jaas(service, SERVICE),
        "sasl.kerberos.principal.to.local.rules": ("DEFAULT",),
    }
    begin = new_gssapi_server(settings.get, "sasl.jaas.config")
    assert log_in(client_of(library, alice), begin()) == "alice"
    settings["sasl.jaas.config"] = jaas(alice, SERVICE)  # which has no such key
    assert log_in(client_of(library, alice), begin()) == "alice"
    assert "stay as they were" in caplog.text
    settings["sasl.jaas.config"] = jaas(service, SERVICE)
    settings["sasl.kerberos.principal.to.local.rules"] = ("RULE:[1:$1](bob)",)
    with pytest.raises(SaslError, match="no rule"):
        log_in(client_of(library, alice), begin())


@pytest.fixture(scope="module")
def cluster(service: Path) -> Iterator[Cluster]:
    line = jaas(service, SERVICE)
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl.kerberos.service.name": "kafka",  # all the rest is GSSAPI by default, as in Kafka
        "listener.name.plaintext.gssapi.sasl.jaas.config": line,
        "listener.name.controller.gssapi.sasl.jaas.config": line,
        "sasl.kerberos.principal.to.local.rules": "RULE:[2:$1](kafka)s/kafka/node/,RULE:[1:$1](alice)",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:node;User:alice",
        "connections.max.reauth.ms": "1500",
    }
    with Cluster(3, settings) as cluster:
        yield cluster


def test_nodes_and_clients_log_in_by_kerberos(cluster: Cluster, alice: Path) -> None:
    """Whose sessions end meanwhile; users have their names by the rules."""
    given = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.kerberos.service.name": "kafka",
    }
    java_words = given | {"sasl.jaas.config": jaas(alice, "alice")}
    librdkafka_words = given | {
        "sasl.mechanisms": "GSSAPI",
        "sasl.kerberos.principal": "alice",
        "sasl.kerberos.keytab": str(alice),
    }
    with Admin(java_words) as admin:
        admin.create_topic("t", partitions=3, replication_factor=3)
    with Producer(librdkafka_words, acks="all") as producer:
        producer.send("t", b"hello").result(60)
    with Consumer(java_words, auto_offset_reset="earliest", group_id="g") as consumer:
        consumer.subscribe(["t"])
        found: list[bytes] = []
        while not found:
            found.extend(record.value for record in consumer.poll(1.0))
    assert found == [b"hello"]


def test_who_is_in_the_realm_and_no_user_is_refused(cluster: Cluster, kdc: Kdc) -> None:
    mallory = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": jaas(kdc.keytab("mallory"), "mallory"),
    }
    with (
        Admin(mallory) as admin,
        pytest.raises(AuthenticationError, match="invalid credentials with SASL mechanism GSSAPI"),
    ):
        admin.list_topics()
    keys_of_another = mallory | {"sasl.jaas.config": jaas(kdc.folder / "mallory.keytab", "alice")}
    with (
        Admin(keys_of_another) as admin,
        pytest.raises(
            AuthenticationError, match=r"no ticket for kafka@127\.0\.0\.1 as alice@.*mallory\.keytab"
        ),
    ):
        admin.list_topics()
