"""Whether stores may be replaced while a node runs, as Kafka decides it (SslFactory, KIP-226).

A new key store must be for the same name, and for all hosts that the former was for: clients know the node by
them. `ssl.allow.dn.changes` and `ssl.allow.san.changes` lift that. Where nodes talk to each other, this node
must trust its own new certificate: the others have the same trust store, or soon will.
"""

from __future__ import annotations

import ssl

from cryptography import x509

from headrace.security.ssl_engine_factory import SslEngines
from headrace.security.ssl_principal_mapper import name_text
from headrace.security.ssl_settings import SslSettings
from headrace.security.stores import KEYSTORE
from headrace.settings.definition import SettingError


def check_replacement(
    former: SslEngines, new: SslEngines, settings: SslSettings, *, trusts_own: bool
) -> None:
    """SettingError where the new stores may not take the former ones' place."""
    if former.key_store is not None:
        if new.key_store is None:
            raise SettingError(
                settings.name(KEYSTORE), "a key store cannot be taken away while the node runs"
            )
        _check_names(former.key_store.certificate, new.key_store.certificate, settings)
    if trusts_own and new.server is not None:
        _check_own_trust(new.server, new.client, settings)


def _check_names(former: x509.Certificate, new: x509.Certificate, settings: SslSettings) -> None:
    if former.subject != new.subject and not settings.allow_dn_changes:
        raise SettingError(
            settings.name(KEYSTORE),
            f"the new certificate is for {name_text(new.subject)}, and the former was for "
            f"{name_text(former.subject)}: set ssl.allow.dn.changes=true where that is meant",
        )
    missing = alternative_names(former) - alternative_names(new)
    if missing and not settings.allow_san_changes:
        raise SettingError(
            settings.name(KEYSTORE),
            f"the new certificate is not for {', '.join(sorted(missing))}, which the former was for: set "
            "ssl.allow.san.changes=true where that is meant",
        )


def alternative_names(certificate: x509.Certificate) -> set[str]:
    """Hosts and addresses that a certificate is for."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return set()
    return {str(each.value) for each in found.value}


def _check_own_trust(server: ssl.SSLContext, client: ssl.SSLContext, settings: SslSettings) -> None:
    """Let the two shake hands, in memory. The host's name is left to those who connect."""
    checked = client.check_hostname
    client.check_hostname = False
    try:
        _shake_hands(server, client)
    except ssl.SSLError as error:
        why = getattr(error, "verify_message", "") or error.reason or str(error)
        raise SettingError(
            settings.name(KEYSTORE),
            f"nodes talk to each other here, and this one would not trust its own certificate: {why}",
        ) from error
    finally:
        client.check_hostname = checked


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_side=False),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    left = list(ends)
    for _ in range(8):  # more turns than any handshake has
        for end in list(left):
            try:
                end.do_handshake()
                left.remove(end)
            except ssl.SSLWantReadError:
                pass
        if not left:
            return
    raise ssl.SSLError("the handshake did not end")
