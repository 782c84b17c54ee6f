"""Certificates that were revoked (ssl.crl.location): refused on both sides, closed where nothing is known."""

import dataclasses
import datetime
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from headrace.security.ssl_channel_builder import SslChannelBuilder
from headrace.security.ssl_settings import SslSettings
from headrace.settings.broker import BROKER
from headrace.settings.definition import SettingError
from tests.security.certificates import DAY, LOCAL, Authority, Credentials

AUTHORITY = Authority()
NODE, ALICE, BOB = AUTHORITY.sign("node", LOCAL), AUTHORITY.sign("alice"), AUTHORITY.sign("bob")
Build = Callable[[Credentials, str], SslChannelBuilder]


def crl(
    revoked: Sequence[Credentials], *, by: Authority = AUTHORITY, days: float = 1
) -> x509.CertificateRevocationList:
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(by.certificate.subject)
        .last_update(now - 2 * DAY)
        .next_update(now + days * DAY)
    )
    for each in revoked:
        entry = x509.RevokedCertificateBuilder().serial_number(each.certificate.serial_number)
        builder = builder.add_revoked_certificate(entry.revocation_date(now).build())
    return builder.sign(by.key, hashes.SHA256())


def pem(listed: x509.CertificateRevocationList) -> bytes:
    return listed.public_bytes(serialization.Encoding.PEM)


@pytest.fixture
def build(tmp_path: Path) -> Build:
    def made(who: Credentials, crl_file: str = "") -> SslChannelBuilder:
        store = tmp_path / f"{who.certificate.serial_number}.pem"
        AUTHORITY.write(tmp_path / "ca.pem")
        settings = dataclasses.replace(
            SslSettings.read(lambda name: BROKER[name].default_value),
            keystore_type="PEM",
            keystore_location=str(who.write(store)),
            truststore_type="PEM",
            truststore_location=str(tmp_path / "ca.pem"),
            crl_location=crl_file and str(tmp_path / crl_file),
            client_auth="required",
        )
        return SslChannelBuilder(settings, lambda path: Path(path).read_bytes(), serves=True)

    return made


def meet(server: SslChannelBuilder, client: SslChannelBuilder) -> None:
    """A whole handshake, in memory; the error of the side that refuses."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    assert server.engines.server is not None
    ends = [
        client.engines.client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.engines.server.wrap_bio(to_server, to_client, server_side=True),
    ]
    while ends:
        for end in list(ends):
            try:
                end.do_handshake()
                ends.remove(end)
            except ssl.SSLWantReadError:
                pass


def test_a_revoked_client_is_refused_and_others_are_not(build: Build, tmp_path: Path) -> None:
    (tmp_path / "ca.crl").write_bytes(pem(crl([ALICE])))
    server = build(NODE, "ca.crl")
    meet(server, build(BOB, ""))
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate revoked"):
        meet(server, build(ALICE, ""))
    meet(build(NODE, ""), build(ALICE, ""))  # nobody asks for what is not set


def test_a_revoked_server_is_refused_by_a_client_that_has_the_list(build: Build, tmp_path: Path) -> None:
    (tmp_path / "ca.crl").write_bytes(crl([NODE]).public_bytes(serialization.Encoding.DER))
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate revoked"):
        meet(build(NODE, ""), build(BOB, "ca.crl"))


def test_a_list_that_changed_is_followed_while_the_node_runs(build: Build, tmp_path: Path) -> None:
    (tmp_path / "ca.crl").write_bytes(pem(crl([])))
    server = build(NODE, "ca.crl")
    meet(server, build(ALICE, ""))
    (tmp_path / "ca.crl").write_bytes(pem(crl([ALICE])))
    assert server.reconfigure(server.settings, trusts_own=True)
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate revoked"):
        meet(server, build(ALICE, ""))
    (tmp_path / "ca.crl").write_bytes(b"half a file")
    with pytest.raises(SettingError):
        server.reconfigure(server.settings, trusts_own=True)
    meet(server, build(BOB, ""))
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate revoked"):
        meet(server, build(ALICE, ""))


@pytest.mark.parametrize(
    ("listed", "why"),
    [
        (crl([], days=-1), "CRL has expired"),
        (crl([], by=Authority("another")), "unable to get certificate CRL"),
    ],
)
def test_without_a_list_that_is_good_nobody_is_let_in(
    build: Build, tmp_path: Path, listed: x509.CertificateRevocationList, why: str
) -> None:
    (tmp_path / "ca.crl").write_bytes(pem(listed))
    with pytest.raises(ssl.SSLCertVerificationError, match=why):
        meet(build(NODE, "ca.crl"), build(BOB, ""))


@pytest.mark.parametrize("content", [b"", b"nothing", AUTHORITY.pem.encode()])
def test_a_file_without_a_list_is_refused_at_the_start(build: Build, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "ca.crl").write_bytes(content)
    with pytest.raises(SettingError, match=r"ssl\.crl\.location.*has no list of revoked certificates"):
        build(NODE, "ca.crl")
    (tmp_path / "ca.crl").unlink()
    with pytest.raises(SettingError, match=r"ssl\.crl\.location"):
        build(NODE, "ca.crl")
