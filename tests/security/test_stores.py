"""Key stores and trust stores in all forms, and what is said of those that cannot be used."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.security.ssl_engine_factory import load_engines
from headrace.security.ssl_settings import SslSettings
from headrace.security.stores import load_key_store, load_trust_store
from headrace.settings.broker import BROKER
from headrace.settings.definition import SettingError
from tests.security.certificates import LOCAL, Authority

AUTHORITY = Authority()
SERVER = AUTHORITY.sign("server", LOCAL)
DEFAULTS = SslSettings.read(lambda name: BROKER[name].default_value, "listener.name.x.")


def settings(**given: str) -> SslSettings:
    return dataclasses.replace(DEFAULTS, **given)


def read(path: str) -> bytes:
    return Path(path).read_bytes()


def test_a_pem_file_has_the_key_and_its_certificates(tmp_path: Path) -> None:
    path = SERVER.write(tmp_path / "server.pem")
    store = load_key_store(settings(keystore_type="PEM", keystore_location=str(path)), read)
    assert store is not None
    assert store.chain == (SERVER.certificate, AUTHORITY.certificate)
    assert store.key.private_numbers() == SERVER.key.private_numbers()  # type: ignore[union-attr]


def test_an_encrypted_key_needs_its_password(tmp_path: Path) -> None:
    path = str(SERVER.write(tmp_path / "server.pem", "secret"))
    given = settings(keystore_type="PEM", keystore_location=path)
    with pytest.raises(SettingError, match=r"listener.name.x.ssl.key.password: the private key is encrypted"):
        load_key_store(given, read)
    with pytest.raises(SettingError, match=r"is ssl.key.password right\?") as told:
        load_key_store(dataclasses.replace(given, key_password="wrong-word"), read)
    assert "wrong-word" not in str(told.value)
    assert load_key_store(dataclasses.replace(given, key_password="secret"), read) is not None


def test_pkcs12_by_its_type_and_where_the_type_says_jks(tmp_path: Path) -> None:
    """Java reads both where the type is JKS, which is the default."""
    path = tmp_path / "server.p12"
    path.write_bytes(SERVER.pkcs12("secret"))
    for kind in ("PKCS12", "JKS"):
        given = settings(keystore_type=kind, keystore_location=str(path), keystore_password="secret")
        store = load_key_store(given, read)
        assert store is not None
        assert store.chain == (SERVER.certificate, AUTHORITY.certificate)
    with pytest.raises(SettingError, match="is its password right"):
        load_key_store(settings(keystore_location=str(path), keystore_password="other"), read)


def test_a_trust_store_in_each_form(tmp_path: Path) -> None:
    pem, p12 = AUTHORITY.write(tmp_path / "ca.pem"), tmp_path / "ca.p12"
    p12.write_bytes(AUTHORITY.pkcs12("secret"))
    trusted = (AUTHORITY.certificate,)
    assert load_trust_store(settings(truststore_type="PEM", truststore_location=str(pem)), read) == trusted
    by_text = settings(truststore_type="PEM", truststore_certificates=AUTHORITY.pem)
    assert load_trust_store(by_text, read) == trusted
    packed = settings(truststore_type="PKCS12", truststore_location=str(p12), truststore_password="secret")
    assert load_trust_store(packed, read) == trusted
    assert load_trust_store(settings(), read) is None


def test_jks_is_refused_with_the_line_that_converts_it(tmp_path: Path) -> None:
    path = tmp_path / "server.jks"
    path.write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
    with pytest.raises(SettingError) as told:
        load_key_store(settings(keystore_location=str(path), keystore_password="secret"), read)
    assert (
        f"keytool -importkeystore -srckeystore {path} -destkeystore {tmp_path / 'server.p12'} "
        "-deststoretype PKCS12"
    ) in str(told.value)
    with pytest.raises(SettingError, match=r"ssl.truststore.location=.*\.p12"):
        load_trust_store(settings(truststore_location=str(path)), read)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"keystore_location": "missing.pem"}, "missing.pem cannot be read: No such file"),
        ({"keystore_key": SERVER.key_pem()}, "ssl.keystore.certificate.chain: ssl.keystore.key and"),
        (
            {"keystore_key": SERVER.key_pem(), "keystore_certificate_chain": SERVER.chain_pem},
            "ssl.keystore.type: JKS, but a key as text is PEM: set ssl.keystore.type=PEM",
        ),
        (
            {
                "keystore_type": "PEM",
                "keystore_key": SERVER.chain_pem,
                "keystore_certificate_chain": SERVER.chain_pem,
            },
            "it has no PRIVATE KEY",
        ),
        ({"truststore_type": "PEM", "truststore_certificates": "nothing"}, "it has no CERTIFICATE"),
        ({"enabled_protocols": ("TLSv1.1",)}, "TLSv1.1 is not served: TLSv1.2 and TLSv1.3 are"),
        ({"protocol": "SSLv3"}, "SSLv3 is not served"),
        ({"protocol": "TLSv1.2", "enabled_protocols": ("TLSv1.3",)}, "it leaves no TLS version"),
        ({"cipher_suites": ("TLS_NO_WITH_SUCH_SUITE",)}, "none of NO-SUCH-SUITE is known to OpenSSL"),
    ],
)
def test_what_is_wrong_is_told_with_the_setting(given: dict[str, str], told: str) -> None:
    with pytest.raises(SettingError) as raised:
        load_engines(settings(**given), read)
    assert told in str(raised.value)
    assert str(raised.value).startswith("listener.name.x.ssl.")
    assert "PRIVATE KEY-----" not in str(raised.value)


def test_a_key_of_another_certificate_is_refused() -> None:
    other = AUTHORITY.sign("other")
    given = settings(
        keystore_type="PEM", keystore_key=other.key_pem(), keystore_certificate_chain=SERVER.chain_pem
    )
    with pytest.raises(SettingError, match="the private key is not the one of the first certificate"):
        load_engines(given, read)


def test_cipher_suites_choose_the_versions_too() -> None:
    given: Callable[..., SslSettings] = lambda *suites: settings(  # noqa: E731
        keystore_type="PEM",
        keystore_key=SERVER.key_pem(),
        keystore_certificate_chain=SERVER.chain_pem,
        cipher_suites=suites,  # type: ignore[arg-type]
    )
    older = load_engines(given("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"), read).server
    assert older is not None
    assert older.maximum_version.name == "TLSv1_2"
    names = [each["name"] for each in older.get_ciphers() if not each["name"].startswith("TLS_")]
    assert names == ["ECDHE-ECDSA-AES256-GCM-SHA384"]
    newer = load_engines(given("TLS_AES_256_GCM_SHA384"), read).server
    assert newer is not None
    assert newer.minimum_version.name == "TLSv1_3"
