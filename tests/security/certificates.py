"""Certificates for tests, made when they are needed: an authority, and what it signs."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)
LOCAL = ("localhost", "127.0.0.1")
Key = ec.EllipticCurvePrivateKey


@dataclass(frozen=True)
class Credentials:
    """A key, its certificate, and the authority's."""

    key: Key
    certificate: x509.Certificate
    authority: x509.Certificate

    def key_pem(self, password: str = "") -> str:
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password:
            encryption = serialization.BestAvailableEncryption(password.encode())
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
        ).decode()

    @property
    def chain_pem(self) -> str:
        return pem(self.certificate) + pem(self.authority)

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.DER)

    def write(self, path: Path, password: str = "") -> Path:
        """One PEM file with key and chain, as Kafka takes it."""
        path.write_text(self.key_pem(password) + self.chain_pem)
        return path

    def write_apart(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Certificate and key in files of their own, as librdkafka and Python take them."""
        certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
        certificate.write_text(self.chain_pem)
        key.write_text(self.key_pem())
        return certificate, key

    def pkcs12(self, password: str) -> bytes:
        return pkcs12.serialize_key_and_certificates(
            b"own",
            self.key,
            self.certificate,
            [self.authority],
            serialization.BestAvailableEncryption(password.encode()),
        )


class Authority:
    """Signs certificates."""

    def __init__(self, name: str = "test authority") -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self._serial = 1
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(subject, self.key, valid_days=3650)
        self.certificate = (
            builder.issuer_name(subject)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self.key, hashes.SHA256())
        )

    @property
    def pem(self) -> str:
        return pem(self.certificate)

    def write(self, path: Path) -> Path:
        path.write_text(self.pem)
        return path

    def pkcs12(self, password: str) -> bytes:
        """A trust store: certificates without a key."""
        return pkcs12.serialize_java_truststore(
            [pkcs12.PKCS12Certificate(self.certificate, b"ca")],
            serialization.BestAvailableEncryption(password.encode()),
        )

    def sign(
        self,
        name: str | x509.Name,
        hosts: Sequence[str] = (),
        *,
        valid_days: float = 30,
        key: Key | None = None,
    ) -> Credentials:
        """A certificate for a name, `CN=name` where it is a text; negative days have passed already."""
        key = key or ec.generate_private_key(ec.SECP256R1())
        subject = (
            name
            if isinstance(name, x509.Name)
            else x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        )
        builder = self._builder(subject, key, valid_days=valid_days).issuer_name(self.certificate.subject)
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName(list(map(_general, hosts))), critical=False
            )
        return Credentials(key, builder.sign(self.key, hashes.SHA256()), self.certificate)

    def _builder(self, subject: x509.Name, key: Key, *, valid_days: float) -> x509.CertificateBuilder:
        self._serial += 1
        now = datetime.datetime.now(datetime.UTC)
        ends = now + valid_days * DAY
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .public_key(key.public_key())
            .serial_number(self._serial)
            .not_valid_before(min(now, ends) - DAY)
            .not_valid_after(ends)
        )


def pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
