"""Stores that are replaced while a node runs: what takes over, what is refused, what is said of their end."""

import dataclasses
import logging
from pathlib import Path

import pytest

from headrace.security.certificate_expiry import DAY_MS, CertificateExpiry, ends_ms
from headrace.security.ssl_channel_builder import SslChannelBuilder
from headrace.security.ssl_settings import SslSettings
from headrace.settings.broker import BROKER
from headrace.settings.definition import SettingError
from tests.security.certificates import LOCAL, Authority

AUTHORITY = Authority()


@pytest.fixture
def settings(tmp_path: Path) -> SslSettings:
    AUTHORITY.sign("node", LOCAL).write(tmp_path / "node.pem")
    AUTHORITY.write(tmp_path / "ca.pem")
    return dataclasses.replace(
        SslSettings.read(lambda name: BROKER[name].default_value),
        keystore_type="PEM",
        keystore_location=str(tmp_path / "node.pem"),
        truststore_type="PEM",
        truststore_location=str(tmp_path / "ca.pem"),
    )


@pytest.fixture
def builder(settings: SslSettings) -> SslChannelBuilder:
    return SslChannelBuilder(settings, lambda path: Path(path).read_bytes(), serves=True)


def certificate_of(builder: SslChannelBuilder) -> object:
    assert builder.engines.key_store is not None
    return builder.engines.key_store.certificate


def test_a_file_that_changed_takes_over(
    builder: SslChannelBuilder, settings: SslSettings, tmp_path: Path
) -> None:
    assert not builder.reconfigure(settings, trusts_own=True)
    new = AUTHORITY.sign("node", [*LOCAL, "more.example"])
    new.write(tmp_path / "node.pem")
    assert builder.reconfigure(settings, trusts_own=True)
    assert certificate_of(builder) == new.certificate


@pytest.mark.parametrize(
    ("name", "hosts", "told", "allowing"),
    [
        ("other", LOCAL, "is for CN=other, and the former was for CN=node", {"allow_dn_changes": True}),
        ("node", LOCAL[:1], "is not for 127.0.0.1, which the former was for", {"allow_san_changes": True}),
    ],
)
def test_another_name_is_refused_unless_it_is_allowed(
    builder: SslChannelBuilder,
    settings: SslSettings,
    tmp_path: Path,
    name: str,
    hosts: tuple[str, ...],
    told: str,
    allowing: dict[str, bool],
) -> None:
    former = certificate_of(builder)
    new = AUTHORITY.sign(name, hosts)
    new.write(tmp_path / "node.pem")
    with pytest.raises(SettingError, match=told):
        builder.reconfigure(settings, trusts_own=True)
    assert certificate_of(builder) == former
    builder.reconfigure(dataclasses.replace(settings, **allowing), trusts_own=True)  # type: ignore[arg-type]
    assert certificate_of(builder) == new.certificate


def test_a_broken_file_leaves_the_former_in_force(
    builder: SslChannelBuilder, settings: SslSettings, tmp_path: Path
) -> None:
    former = certificate_of(builder)
    for content in (b"", b"-----BEGIN PRIVATE KEY-----"):
        (tmp_path / "node.pem").write_bytes(content)
        with pytest.raises(SettingError):
            builder.reconfigure(settings, trusts_own=True)
    (tmp_path / "node.pem").unlink()
    with pytest.raises(SettingError, match="cannot be read"):
        builder.reconfigure(settings, trusts_own=True)
    assert certificate_of(builder) == former


def test_between_nodes_a_certificate_that_they_would_not_trust_is_refused(
    builder: SslChannelBuilder, settings: SslSettings, tmp_path: Path
) -> None:
    Authority("other").sign("node", LOCAL).write(tmp_path / "node.pem")
    with pytest.raises(SettingError, match="this one would not trust its own certificate"):
        builder.check(settings, trusts_own=True)
    builder.check(settings, trusts_own=False)
    assert builder.engines.client.check_hostname


def test_a_server_without_a_key_does_not_start(settings: SslSettings) -> None:
    with pytest.raises(SettingError, match="needs a private key"):
        SslChannelBuilder(
            dataclasses.replace(settings, keystore_location=""),
            lambda path: Path(path).read_bytes(),
            serves=True,
        )


def test_the_end_of_a_certificate_is_told_daily_in_its_last_month(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    chain = (AUTHORITY.sign("node", valid_days=100).certificate,)
    end_ms, expiry = ends_ms(chain[0]), CertificateExpiry("SSL")

    def told(days_before: float) -> list[tuple[str, str]]:
        caplog.clear()
        expiry.tell(chain, int(end_ms - days_before * DAY_MS))
        return [(each.levelname, each.message) for each in caplog.records]

    assert told(90) == [("INFO", "listener SSL: the certificate of CN=node is good for 90 days")]
    assert told(60) == []
    assert [level for level, _ in told(29)] == ["WARNING"]
    assert told(28.5) == []
    assert "expires in 28 days" in told(28)[0][1]
    assert [level for level, _ in told(-1)] == ["ERROR"]
