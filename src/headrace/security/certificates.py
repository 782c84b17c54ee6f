"""Certificates of a cluster's own: an authority (CA), and what it issues to nodes and users, as PEM.

Keys are P-256: a handshake with them takes a third of what one with RSA does. The day is a parameter; keys
and serial numbers come from the system's entropy, as they must.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from headrace.base.errors import InvalidBytesError

CA_DAYS: Final = 3650
LEAF_DAYS: Final = 365
# Clocks differ: one that is behind must not take a new certificate for one of the future.
_CLOCKS_DIFFER: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes = field(repr=False)

    @property
    def chain(self) -> bytes:
        """Both in one file, as `ssl.keystore.location` takes them."""
        return self.key + self.certificate


def make_ca(name: str, *, now: datetime, days: int = CA_DAYS) -> Issued:
    """An authority that vouches for itself, and issues end certificates only."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    builder = _begin(subject, subject, key.public_key(), now, days).add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True
    )
    usage = _usage(signs=False, certifies=True)
    return _signed(builder.add_extension(usage, critical=True), key, key)


def issue(
    ca: Issued, name: str, hosts: Sequence[str] = (), *, now: datetime, days: int = LEAF_DAYS
) -> Issued:
    """A certificate for a node, which is reached by `hosts` (names and addresses), or for a user."""
    authority, ca_key = _certificate(ca.certificate), _key(ca.key)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _begin(_name(name), authority.subject, key.public_key(), now, days)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs=True, certifies=False), critical=True)
    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])]
    builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
    )
    if hosts:
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    return _signed(builder, key, ca_key)


def renew(ca: Issued, old: bytes, *, now: datetime, days: int = LEAF_DAYS) -> Issued:
    """Another certificate with a new key, for whom `old` was issued to and the same hosts."""
    return issue(ca, common_name(old), hosts_of(old), now=now, days=days)


def revoke(ca: Issued, revoked: bytes, former: bytes | None, *, now: datetime) -> bytes:
    """The authority's list of revoked certificates (CRL), PEM, with one more. It is good as long as the
    authority: it lies beside it, and nobody has to fetch it anew in time.
    """
    authority = _certificate(ca.certificate)
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(authority.subject)
        .last_update(now - _CLOCKS_DIFFER)
        .next_update(authority.not_valid_after_utc)
    )
    number = 1
    if former is not None:
        known = x509.load_pem_x509_crl(former)
        number += known.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
        for each in known:
            builder = builder.add_revoked_certificate(each)
    added = (
        x509.RevokedCertificateBuilder()
        .serial_number(_certificate(revoked).serial_number)
        .revocation_date(now)
        .build()
    )
    builder = builder.add_revoked_certificate(added).add_extension(x509.CRLNumber(number), critical=False)
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(_key(ca.key).public_key()), critical=False
    )
    return builder.sign(_key(ca.key), hashes.SHA256()).public_bytes(Encoding.PEM)


def common_name(certificate: bytes) -> str:
    """Who it was issued to."""
    (attribute,) = _certificate(certificate).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(attribute.value)


def hosts_of(certificate: bytes) -> list[str]:
    """The names and addresses by which its owner is reached."""
    try:
        names = _certificate(certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    return [str(name.value) for name in names.value]


def expires_at(certificate: bytes) -> datetime:
    """When it ends, in UTC."""
    return _certificate(certificate).not_valid_after_utc


def _certificate(pem: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise InvalidBytesError(f"this is no PEM certificate: {error}") from error


def _key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InvalidBytesError("the authority's key is not one of those made here: it is no EC key")
    return key


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, signs: bool, certifies: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=signs,
        key_cert_sign=certifies,
        crl_sign=certifies,
        encipher_only=False,
        decipher_only=False,
    )


def _begin(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _signed(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, by: ec.EllipticCurvePrivateKey
) -> Issued:
    certificate = builder.sign(by, hashes.SHA256())
    return Issued(
        certificate.public_bytes(Encoding.PEM),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )
