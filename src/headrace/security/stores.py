"""Key stores and trust stores: the files, or texts, that certificates and private keys come from.

PEM and PKCS12 are read. JKS, Java's own format, is not: the error has the `keytool` line that converts it.
What a file is is seen by its first bytes, because Java reads PKCS12 where the type says JKS, and its keytool
has made PKCS12 by default since Java 9.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from headrace.settings.definition import SettingError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

    from headrace.security.ssl_settings import SslSettings

ReadFile = Callable[[str], bytes]

_JKS: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")  # JKS and JCEKS
_PRIVATE_KEY: Final = re.compile(rb"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.+?-----END \1-----", re.DOTALL)
_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"
KEYSTORE: Final = "ssl.keystore.location"
TRUSTSTORE: Final = "ssl.truststore.location"
CRL: Final = "ssl.crl.location"
UNREADABLE: Final = (
    *(ValueError, TypeError, OverflowError, UnsupportedAlgorithm),
    *(x509.InvalidVersion, x509.DuplicateExtension, x509.UnsupportedGeneralNameType),
)
"""What `cryptography` raises for bytes that are no store, certificate or list, or not of a kind it knows."""
_CRL_BLOCK: Final = re.compile(rb"-----BEGIN X509 CRL-----.+?-----END X509 CRL-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class KeyStore:
    """A private key, and the certificates that prove it: the own one first."""

    key: PrivateKeyTypes = field(repr=False)
    chain: tuple[x509.Certificate, ...]

    @property
    def certificate(self) -> x509.Certificate:
        return self.chain[0]

    def pem(self) -> bytes:
        """All of it, as OpenSSL takes it. The key is not encrypted: this stays in memory."""
        key = self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return key + pem_of(self.chain)


def pem_of(certificates: Sequence[x509.Certificate]) -> bytes:
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates)


def load_key_store(settings: SslSettings, read_file: ReadFile) -> KeyStore | None:
    """The key store that the settings name, None where there is none; SettingError where it is wrong."""
    if settings.keystore_key or settings.keystore_certificate_chain:
        return _inline_key_store(settings)
    if not settings.keystore_location:
        return None
    data = _read(settings.name(KEYSTORE), settings.keystore_location, read_file)
    _refuse_jks(settings, KEYSTORE, settings.keystore_location, data)
    if _is_pem(data):
        _check_pem(settings, "keystore", settings.keystore_type)
        if settings.keystore_password:
            raise SettingError(
                settings.name("ssl.keystore.password"),
                "a PEM file has none: the key's own password is ssl.key.password",
            )
        return _pem_key_store(settings, KEYSTORE, data, data)
    return _pkcs12_key_store(settings, data)


def load_crls(settings: SslSettings, read_file: ReadFile) -> bytes:
    """The lists of revoked certificates that the settings name, as PEM; nothing where they name none."""
    if not settings.crl_location:
        return b""
    data = _read(settings.name(CRL), settings.crl_location, read_file)
    blocks = _CRL_BLOCK.findall(data)
    try:
        lists = [x509.load_pem_x509_crl(each) for each in blocks] or [x509.load_der_x509_crl(data)]
    except UNREADABLE:
        raise SettingError(
            settings.name(CRL), f"{settings.crl_location} has no list of revoked certificates (X509 CRL)"
        ) from None
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in lists)


def load_trust_store(settings: SslSettings, read_file: ReadFile) -> tuple[x509.Certificate, ...] | None:
    """The certificates that are trusted, None where the settings name none: the system's are trusted then."""
    if settings.truststore_certificates:
        _check_pem_type(settings, "ssl.truststore.type", settings.truststore_type, "certificates as text")
        if settings.truststore_location:
            raise SettingError(
                settings.name("ssl.truststore.certificates"), "give it or ssl.truststore.location, not both"
            )
        return _pem_certificates(
            settings.name("ssl.truststore.certificates"), settings.truststore_certificates.encode()
        )
    if not settings.truststore_location:
        return None
    data = _read(settings.name(TRUSTSTORE), settings.truststore_location, read_file)
    _refuse_jks(settings, TRUSTSTORE, settings.truststore_location, data)
    if _is_pem(data):
        _check_pem(settings, "truststore", settings.truststore_type)
        return _pem_certificates(settings.name(TRUSTSTORE), data)
    return _pkcs12_certificates(settings, data)


def _read(setting: str, path: str, read_file: ReadFile) -> bytes:
    try:
        return read_file(path)
    except OSError as error:
        raise SettingError(setting, f"{path} cannot be read: {error.strerror or error}") from error


def _is_pem(data: bytes) -> bool:
    return b"-----BEGIN " in data


def _refuse_jks(settings: SslSettings, setting: str, path: str, data: bytes) -> None:
    if not data.startswith(_JKS):
        return
    new = re.sub(r"\.(jks|jceks|keystore|truststore)$", "", path) + ".p12"
    store = setting.split(".")[1]
    raise SettingError(
        settings.name(setting),
        f"{path} is a Java key store (JKS), which is not read here. This converts it: "
        f"keytool -importkeystore -srckeystore {path} -destkeystore {new} -deststoretype PKCS12; "
        f"then set ssl.{store}.location={new} and ssl.{store}.type=PKCS12",
    )


def _check_pem(settings: SslSettings, store: str, kind: str) -> None:
    _check_pem_type(settings, f"ssl.{store}.type", kind, "the file")


def _check_pem_type(settings: SslSettings, setting: str, kind: str, what: str) -> None:
    if kind.upper() != "PEM":
        raise SettingError(settings.name(setting), f"{kind}, but {what} is PEM: set {setting}=PEM")


# PEM


def _inline_key_store(settings: SslSettings) -> KeyStore:
    for name, given in (
        ("ssl.keystore.key", settings.keystore_key),
        ("ssl.keystore.certificate.chain", settings.keystore_certificate_chain),
    ):
        if not given:
            raise SettingError(
                settings.name(name), "ssl.keystore.key and ssl.keystore.certificate.chain go together"
            )
    if settings.keystore_location:
        raise SettingError(settings.name("ssl.keystore.key"), "give it or ssl.keystore.location, not both")
    _check_pem_type(settings, "ssl.keystore.type", settings.keystore_type, "a key as text")
    return _pem_key_store(
        settings,
        "ssl.keystore.key",
        settings.keystore_key.encode(),
        settings.keystore_certificate_chain.encode(),
    )


def _pem_key_store(settings: SslSettings, setting: str, key_pem: bytes, chain_pem: bytes) -> KeyStore:
    found = _PRIVATE_KEY.search(key_pem)
    if found is None:
        raise SettingError(settings.name(setting), "it has no PRIVATE KEY in PEM form")
    password = settings.key_password.encode() or None
    is_encrypted = b"ENCRYPTED" in found[0]
    if is_encrypted and password is None:
        raise SettingError(
            settings.name("ssl.key.password"), "the private key is encrypted: give its password"
        )
    try:
        key = serialization.load_pem_private_key(found[0], password if is_encrypted else None)
    except UNREADABLE as error:
        reason = "is ssl.key.password right?" if is_encrypted else "its bytes are broken"
        raise SettingError(settings.name(setting), f"the private key cannot be read: {reason}") from error
    return KeyStore(key, _pem_certificates(settings.name(setting), chain_pem))


def _whole(setting: str, certificates: Sequence[x509.Certificate]) -> tuple[x509.Certificate, ...]:
    """The certificates, whose fields can be read: they are only looked at when they are needed."""
    for each in certificates:
        try:
            _ = (each.subject, each.issuer, each.not_valid_before_utc, each.not_valid_after_utc)
            _ = (each.extensions, each.public_key())
        except UNREADABLE as error:
            raise SettingError(setting, f"a certificate in it cannot be read: {error}") from error
    return tuple(certificates)


def _pem_certificates(setting: str, data: bytes) -> tuple[x509.Certificate, ...]:
    if _CERTIFICATE not in data:
        raise SettingError(setting, "it has no CERTIFICATE in PEM form")
    try:
        found = x509.load_pem_x509_certificates(data)
    except UNREADABLE as error:
        raise SettingError(setting, f"a certificate in it cannot be read: {error}") from error
    return _whole(setting, found)


# PKCS12


def _open_pkcs12(setting: str, path: str, data: bytes, password: str) -> pkcs12.PKCS12KeyAndCertificates:
    try:
        return pkcs12.load_pkcs12(data, password.encode() or None)
    except UNREADABLE as error:
        raise SettingError(
            setting, f"{path} cannot be read as PKCS12: is its password right, and is it one at all?"
        ) from error


def _pkcs12_key_store(settings: SslSettings, data: bytes) -> KeyStore:
    setting, path = settings.name(KEYSTORE), settings.keystore_location
    store = _open_pkcs12(setting, path, data, settings.keystore_password)
    if store.key is None or store.cert is None:
        raise SettingError(setting, f"{path} has no private key with its certificate")
    own, *others = _whole(
        setting, [store.cert.certificate, *(each.certificate for each in store.additional_certs)]
    )
    return KeyStore(store.key, tuple(_chain(own, others)))


def _chain(own: x509.Certificate, others: list[x509.Certificate]) -> list[x509.Certificate]:
    """The own certificate, then each one's issuer: a store has them in any order."""
    chain = [own]
    while chain[-1].issuer != chain[-1].subject:
        issuer = next((each for each in others if each.subject == chain[-1].issuer), None)
        if issuer is None or issuer in chain:
            break
        chain.append(issuer)
    return chain


def _pkcs12_certificates(settings: SslSettings, data: bytes) -> tuple[x509.Certificate, ...]:
    setting, path = settings.name(TRUSTSTORE), settings.truststore_location
    store = _open_pkcs12(setting, path, data, settings.truststore_password)
    found = [each.certificate for each in ([store.cert] if store.cert else []) + store.additional_certs]
    if not found:
        raise SettingError(setting, f"{path} has no certificates")
    return _whole(setting, found)
