"""A secure cluster on one machine, made in one step: certificates, users, rules and ready client files.

Everything lies in DATA/security, readable by its owner alone:

    ca.pem, ca.key, nodeK.pem    the authority, and the keys and certificates of the nodes
    admin.properties             a super user, for Kafka's tools and `--command-config`
    app.properties               an application's user: it may use all topics, groups and transactions
    NAME.librdkafka.properties   the same for librdkafka (confluent-kafka, kcat, Go, Node and others)
    NAME.json                    the same as a dict for Python: headrace's clients

Clients log in with SCRAM-SHA-512 over TLS. Nodes know each other by their certificates, on listeners of their
own, so that no node needs a password. What is there is used again at the next start.
"""

import json
import secrets
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Final

from headrace.base.ids import new_uuid
from headrace.metadata.image import MetadataRecord
from headrace.node.bootstrap import bootstrap_records, scram_user
from headrace.node.certificate_folder import CertificateFolder, write_file
from headrace.node.config import SECURITY, is_secured
from headrace.node.fleet import CONTROLLER, HOST, fleet_configs
from headrace.security.acl import WILDCARD, Operation, PatternType, Permission, Resource
from headrace.security.certificates import expires_at
from headrace.settings.broker_config import BrokerConfig
from headrace.wire.schemas.metadata_records import AccessControlEntryRecord

CLIENTS: Final = "SASL_SSL"
REPLICATION: Final = "REPLICATION"
MECHANISM: Final = "SCRAM-SHA-512"
ADMIN: Final = "admin"
APP: Final = "app"
USERS: Final = (ADMIN, APP)
HOSTS: Final = (HOST, "localhost", "::1")
RENEWED_BEFORE: Final = timedelta(days=30)
_PASSWORD_BYTES: Final = 24
_APP_MAY: Final = (Resource.TOPIC, Resource.GROUP, Resource.TRANSACTIONAL_ID)


class SecureFleet:
    """The files of a secure cluster of `count` nodes below `data`, which may all stand in one `rack`."""

    def __init__(self, data: str, count: int, rack: str | None = None) -> None:
        self.folder = Path(data).absolute() / SECURITY
        self._count = count
        self._rack = rack
        self._certificates = CertificateFolder(self.folder)
        self._passwords = {user: self._password_of(user) for user in USERS}

    @property
    def is_there(self) -> bool:
        """Whether a secure cluster has been made here."""
        return is_secured(str(self.folder.parent))

    def prepare(self, say: Callable[[str], None]) -> None:
        """Make the certificates that are missing, and renew those that end soon."""
        for node in self._nodes():
            file = self._certificates.file_of(node)
            if not file.exists():
                self._certificates.issue(node, HOSTS)
            elif expires_at(file.read_bytes()) - datetime.now(UTC) < RENEWED_BEFORE:
                self._certificates.renew(node)
                say(f"the certificate of {node} would have ended soon: it is renewed for a year")

    def configs(self, port: int, data: str, overrides: dict[str, str]) -> list[BrokerConfig]:
        """The settings of the nodes."""
        return fleet_configs(
            *(self._count, port, data, overrides),
            client_listener=CLIENTS,
            more_listeners=(REPLICATION,),
            more_settings=self._settings,
            rack=self._rack,
        )

    def bootstrap(self, rng: Random) -> list[MetadataRecord]:
        """What a new cluster begins with: its users, and what the application's may do."""
        users = [
            scram_user(f"{MECHANISM}=[name={user},password={password}]", rng.randbytes)
            for user, password in self._passwords.items()
        ]
        rules = [
            AccessControlEntryRecord(
                id=new_uuid(rng),
                resource_type=resource,
                resource_name=WILDCARD,
                pattern_type=PatternType.LITERAL,
                principal=f"User:{APP}",
                host=WILDCARD,
                operation=Operation.ALL,
                permission_type=Permission.ALLOW,
            )
            for resource in _APP_MAY
        ]
        return [*bootstrap_records(users=users), *rules]

    def write_client_files(self, configs: list[BrokerConfig]) -> None:
        """With the addresses of now. To be written before the cluster is formatted: a user whose password
        is nowhere could never log in."""
        servers = ",".join(
            f"{each.host}:{each.port}"
            for config in configs
            for each in config.broker_listeners
            if each.name == CLIENTS
        )
        for user, password in self._passwords.items():
            self._write_client_files(user, password, servers)

    def client_settings(self, user: str = ADMIN) -> dict[str, str]:
        """What a client of ours needs to log in as this user."""
        settings: dict[str, str] = json.loads((self.folder / f"{user}.json").read_bytes())
        return settings

    def librdkafka_settings(self, user: str) -> dict[str, str]:
        """What a client made with librdkafka needs to log in as this user."""
        lines = (self.folder / f"{user}.librdkafka.properties").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)

    def _password_of(self, user: str) -> str:
        try:
            return self.client_settings(user)["sasl.password"]
        except FileNotFoundError:
            return secrets.token_urlsafe(_PASSWORD_BYTES)

    def _nodes(self) -> list[str]:
        return [f"node{number + 1}" for number in range(self._count)]

    def _settings(self, node_id: int) -> dict[str, str]:
        by_certificate = [f"User:CN={node}" for node in self._nodes()]
        own = {
            f"listener.name.{name.lower()}.ssl.client.auth": "required" for name in (REPLICATION, CONTROLLER)
        }
        return own | {
            "listener.security.protocol.map": f"{CLIENTS}:SASL_SSL,{REPLICATION}:SSL,{CONTROLLER}:SSL",
            "inter.broker.listener.name": REPLICATION,
            "sasl.enabled.mechanisms": MECHANISM,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._certificates.file_of(f"node{node_id}")),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._certificates.ca_file),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": ";".join([f"User:{ADMIN}", *by_certificate]),
        }

    def _write_client_files(self, user: str, password: str, servers: str) -> None:
        ca = str(self._certificates.ca_file)
        common = {"bootstrap.servers": servers, "security.protocol": CLIENTS}
        kafka = common | {
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="{user}" password="{password}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": ca,
        }
        login = {"sasl.username": user, "sasl.password": password}
        librdkafka = common | {"sasl.mechanisms": MECHANISM, **login, "ssl.ca.location": ca}
        python = common | {
            "sasl.mechanism": MECHANISM,
            **login,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": ca,
        }
        self._write(f"{user}.properties", _properties(kafka))
        self._write(f"{user}.librdkafka.properties", _properties(librdkafka))
        self._write(f"{user}.json", json.dumps(python, indent=2) + "\n")

    def _write(self, name: str, text: str) -> None:
        write_file(self.folder / name, text.encode(), secret=True)


def _properties(settings: dict[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in settings.items())
