"""TLS contexts out of settings: certificates, versions, ciphers, and who is asked for a certificate.

Python's `ssl` loads a key from a file only. What was read (or given as text) is handed to it in a file that
is in memory where the system has such, and else in one that is only the owner's and is removed at once.
"""

from __future__ import annotations

import contextlib
import logging
import os
import ssl
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from cryptography import x509

from headrace.security.cipher_suites import openssl_names
from headrace.security.ssl_settings import SslSettings
from headrace.security.stores import (
    CRL,
    TRUSTSTORE,
    KeyStore,
    ReadFile,
    load_crls,
    load_key_store,
    load_trust_store,
    pem_of,
)
from headrace.settings.definition import SettingError

logger = logging.getLogger(__name__)

VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


@dataclass(frozen=True, slots=True)
class SslEngines:
    """What was made out of one state of settings and files."""

    server: ssl.SSLContext | None
    """None where there is no key store: such a node can only be a client."""
    client: ssl.SSLContext
    key_store: KeyStore | None
    trusted: tuple[x509.Certificate, ...] | None


def load_engines(settings: SslSettings, read_file: ReadFile) -> SslEngines:
    """Read the stores and make contexts of them; SettingError where one of the settings is wrong."""
    key_store = load_key_store(settings, read_file)
    trusted, crls = load_trust_store(settings, read_file), load_crls(settings, read_file)
    client = _context(settings, ssl.PROTOCOL_TLS_CLIENT, key_store, trusted, crls)
    client.check_hostname = bool(settings.endpoint_identification_algorithm)
    client.verify_mode = ssl.CERT_REQUIRED
    server = None
    if key_store is not None:
        server = _context(settings, ssl.PROTOCOL_TLS_SERVER, key_store, trusted, crls)
        server.verify_mode = _CLIENT_AUTH[settings.client_auth]
        server.options |= ssl.OP_CIPHER_SERVER_PREFERENCE | ssl.OP_NO_TICKET
        # Nobody comes back with a ticket of an earlier handshake: what expired meanwhile would be missed.
        server.num_tickets = 0
    return SslEngines(server, client, key_store, trusted)


def _context(
    settings: SslSettings,
    side: int,
    key_store: KeyStore | None,
    trusted: tuple[x509.Certificate, ...] | None,
    crls: bytes,
) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    _set_versions(context, settings)
    if trusted is None:
        context.load_default_certs(
            ssl.Purpose.CLIENT_AUTH if side == ssl.PROTOCOL_TLS_SERVER else ssl.Purpose.SERVER_AUTH
        )
    else:
        with _told_as(settings.name(TRUSTSTORE)):
            context.load_verify_locations(cadata=pem_of(trusted).decode())
    if crls:
        with _private_file(crls) as path, _told_as(settings.name(CRL)):
            context.load_verify_locations(cafile=path)
        # Closed where it is not known: a certificate whose authority has no list, or an old one, is refused.
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
    if key_store is not None:
        _load_key(context, settings, key_store)
    return context


@contextlib.contextmanager
def _told_as(setting: str) -> Iterator[None]:
    """OpenSSL does not take all that `cryptography` can read: a SettingError then."""
    try:
        yield
    except ssl.SSLError as error:
        raise SettingError(setting, f"it cannot be used: {error.reason or error}") from error


def _set_versions(context: ssl.SSLContext, settings: SslSettings) -> None:
    """ssl.protocol is the newest version, ssl.enabled.protocols those that are allowed at all."""
    unknown = [each for each in settings.enabled_protocols if each not in VERSIONS]
    if unknown:
        raise SettingError(
            settings.name("ssl.enabled.protocols"),
            f"{', '.join(unknown)} is not served: TLSv1.2 and TLSv1.3 are",
        )
    if settings.protocol not in (*VERSIONS, "TLS"):
        raise SettingError(
            settings.name("ssl.protocol"), f"{settings.protocol} is not served: TLSv1.2 and TLSv1.3 are"
        )
    newest = VERSIONS.get(settings.protocol, ssl.TLSVersion.TLSv1_3)
    allowed = {VERSIONS[each] for each in settings.enabled_protocols or VERSIONS} - (
        {ssl.TLSVersion.TLSv1_3} if newest is ssl.TLSVersion.TLSv1_2 else set()
    )
    if settings.cipher_suites:
        allowed &= _set_ciphers(context, settings)
    if not allowed:
        raise SettingError(
            settings.name("ssl.enabled.protocols"),
            "it leaves no TLS version, with ssl.protocol and ssl.cipher.suites",
        )
    context.minimum_version, context.maximum_version = min(allowed), max(allowed)


def _set_ciphers(context: ssl.SSLContext, settings: SslSettings) -> set[ssl.TLSVersion]:
    """Allow these suites only; returns the versions that they are of."""
    older, newer = openssl_names(settings.cipher_suites)
    versions = {ssl.TLSVersion.TLSv1_3} if newer else set()
    if older:
        try:
            context.set_ciphers(":".join(older))
        except ssl.SSLError:
            raise SettingError(
                settings.name("ssl.cipher.suites"),
                f"none of {', '.join(older)} is known to {ssl.OPENSSL_VERSION}",
            ) from None
        versions.add(ssl.TLSVersion.TLSv1_2)
    if newer and hasattr(context, "set_ciphersuites"):  # from Python 3.15 on
        context.set_ciphersuites(":".join(newer))
    elif newer and set(newer) != {
        each["name"] for each in context.get_ciphers() if each["name"].startswith("TLS_")
    }:
        logger.warning(
            "%s: this Python cannot choose among the suites of TLS 1.3: all, which are sound, are allowed",
            settings.name("ssl.cipher.suites"),
        )
    return versions


def _load_key(context: ssl.SSLContext, settings: SslSettings, key_store: KeyStore) -> None:
    try:
        with _private_file(key_store.pem()) as path:
            context.load_cert_chain(path)
    except ssl.SSLError as error:
        reason = error.reason or str(error)
        if reason == "KEY_VALUES_MISMATCH":
            reason = "the private key is not the one of the first certificate"
        raise SettingError(settings.name("ssl.keystore.location"), f"it cannot be used: {reason}") from error


@contextlib.contextmanager
def _private_file(data: bytes) -> Iterator[str]:
    """A file with these bytes that nobody else can open, gone afterwards."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("headrace-key")
        try:
            os.write(descriptor, data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        yield file.name
