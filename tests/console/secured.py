"""Headrace or Apache Kafka behind TLS and logins (SASL_SSL), with rules of who may see and change what."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from headrace.clients import AclBinding, Admin, Producer, UserScramCredentialUpsertion
from headrace.settings.not_yet import STANDARD_AUTHORIZER
from headrace.testing.cluster import Cluster
from headrace.transport.system_network import free_ports
from tests.compat import prepare
from tests.compat.brokers import NEVER_FENCED, ApacheKafkaBroker
from tests.security.certificates import LOCAL, Authority

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
TOKENS = {"delegation.token.secret.key": "a secret of all brokers"}
READER, READERS = "reader", "of the reader"
"""May read `orders`, and nothing else."""


class Secured(NamedTuple):
    """How it is reached, without a login, and who may do everything."""

    settings: dict[str, str]
    user: str
    password: str


class KafkaBehindLogins(ApacheKafkaBroker):
    """Apache Kafka with a SASL_SSL listener beside the plain one, by which it is prepared."""

    secure_bootstrap = ""

    def _format(self, properties: Path) -> None:
        super()._format(properties)
        (port,) = free_ports(1)
        self.secure_bootstrap = f"127.0.0.1:{port}"
        text = properties.read_text()
        for name in ("listeners", "advertised.listeners"):
            text = text.replace(f"\n{name}=", f"\n{name}=LOCKED://{self.secure_bootstrap},")
        before = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
        assert before in text
        properties.write_text(text.replace(before, f"{before},LOCKED:SASL_SSL"))


@contextmanager
def secured(system: str, folder: Path) -> Iterator[Secured]:
    """One of `EITHER`, with the topics `orders` and `secrets`, and somebody who may read the first."""
    if system == "kafka":
        with _kafka(folder) as found:
            yield found
        return
    with Cluster(secure=True, settings=TOKENS) as cluster:
        settings = cluster.client_settings("admin")
        with Admin(settings) as admin:
            _fill(admin)
        with Producer(settings) as producer:
            producer.send("orders", b"hello").result(60)
        del settings["sasl.username"]
        yield Secured(settings, "admin", settings.pop("sasl.password"))


@contextmanager
def _kafka(folder: Path) -> Iterator[Secured]:
    authority = Authority()
    authority.write(folder / "ca.pem")
    authority.sign("node", LOCAL).write(folder / "node.pem")
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "node.pem"),
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.locked.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:ANONYMOUS;User:admin",
    }
    with KafkaBehindLogins(folder / "data", NEVER_FENCED | TOKENS | settings) as broker:
        try:
            broker.start()
        except prepare.UnavailableError as reason:
            pytest.skip(str(reason))
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            _fill(admin)
            admin.alter_user_scram_credentials(UserScramCredentialUpsertion("admin", "of the admin"))
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send("orders", b"hello").result(60)
        client = {
            "bootstrap.servers": broker.secure_bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(folder / "ca.pem"),
        }
        yield Secured(client, "admin", "of the admin")
        broker.stop()


def _fill(admin: Admin) -> None:
    for topic in ("orders", "secrets"):
        admin.create_topic(topic, partitions=1)
    admin.alter_user_scram_credentials(UserScramCredentialUpsertion(READER, READERS))
    admin.create_acls(AclBinding(f"User:{READER}", "read", "topic", "orders"))
