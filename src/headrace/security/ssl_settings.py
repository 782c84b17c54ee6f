"""The `ssl.*` settings of one listener, or of a client, as they are in force."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.settings.definition import Value


@dataclass(frozen=True, slots=True)
class SslSettings:
    """Names are Kafka's, without `ssl.`. `prefix` comes before them where an error tells of one."""

    prefix: str
    keystore_type: str
    keystore_location: str
    keystore_password: str = field(repr=False)
    key_password: str = field(repr=False)
    keystore_key: str = field(repr=False)
    keystore_certificate_chain: str
    truststore_type: str
    truststore_location: str
    truststore_password: str = field(repr=False)
    truststore_certificates: str
    protocol: str
    enabled_protocols: tuple[str, ...]
    cipher_suites: tuple[str, ...]
    endpoint_identification_algorithm: str
    crl_location: str = ""
    client_auth: str = "none"
    principal_mapping_rules: str = "DEFAULT"
    allow_dn_changes: bool = False
    allow_san_changes: bool = False

    @classmethod
    def read(cls, get: Callable[[str], Value], prefix: str = "") -> SslSettings:
        """The settings as `get` tells them, by their names with `ssl.`."""

        def text(name: str) -> str:
            value = get(name)
            return value if isinstance(value, str) else ""

        def items(name: str) -> tuple[str, ...]:
            value = get(name)
            return value if isinstance(value, tuple) else ()

        return cls(
            prefix,
            keystore_type=text("ssl.keystore.type"),
            keystore_location=text("ssl.keystore.location"),
            keystore_password=text("ssl.keystore.password"),
            key_password=text("ssl.key.password"),
            keystore_key=text("ssl.keystore.key"),
            keystore_certificate_chain=text("ssl.keystore.certificate.chain"),
            truststore_type=text("ssl.truststore.type"),
            truststore_location=text("ssl.truststore.location"),
            truststore_password=text("ssl.truststore.password"),
            truststore_certificates=text("ssl.truststore.certificates"),
            protocol=text("ssl.protocol"),
            enabled_protocols=items("ssl.enabled.protocols"),
            cipher_suites=items("ssl.cipher.suites"),
            endpoint_identification_algorithm=text("ssl.endpoint.identification.algorithm"),
            crl_location=text("ssl.crl.location"),
            client_auth=text("ssl.client.auth") or "none",
            principal_mapping_rules=text("ssl.principal.mapping.rules") or "DEFAULT",
            allow_dn_changes=get("ssl.allow.dn.changes") is True,
            allow_san_changes=get("ssl.allow.san.changes") is True,
        )

    def name(self, setting: str) -> str:
        """A setting's name as it would be set."""
        return self.prefix + setting

    @property
    def files(self) -> tuple[str, ...]:
        """Files that are read."""
        return tuple(filter(None, (self.keystore_location, self.truststore_location, self.crl_location)))
