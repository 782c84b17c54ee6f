"""Settings of logins by Kerberos: what is read, and what is refused at the start. No KDC is asked."""

from typing import Any

import pytest

from headrace.security import gss_library, kerberos_login
from headrace.security.gss_library import GssMissingError
from headrace.security.jaas import parse_jaas
from headrace.security.kerberos_login import KerberosLogin, new_acceptor, new_kerberos_client, read_login
from headrace.settings.definition import SettingError

KRB5 = "com.sun.security.auth.module.Krb5LoginModule"
KEYS = f'{KRB5} required useKeyTab=true storeKey=true keyTab="/keys/a" principal="a@EXAMPLE.COM";'


def login(options: str) -> KerberosLogin:
    return read_login(parse_jaas(f"{KRB5} required {options};"), "sasl.jaas.config")


def test_lines_as_kafkas_users_have_them() -> None:
    assert login('useKeyTab=true storeKey=true keyTab="/keys/a" principal="a@EXAMPLE.COM"') == KerberosLogin(
        "a@EXAMPLE.COM", "/keys/a"
    )
    assert login('useKeyTab=true keyTab="FILE:/keys/a" principal="a" serviceName=kafka') == KerberosLogin(
        "a", "/keys/a", service_name="kafka"
    )
    assert login("useTicketCache=true renewTGT=true") == KerberosLogin()
    assert login('useTicketCache=true ticketCache="/tmp/tickets" principal="a"') == KerberosLogin(
        "a", ticket_cache="/tmp/tickets"
    )
    # Java looks at the tickets first, then at the keys; keys are always there.
    assert login('useTicketCache=true useKeyTab=true keyTab="/keys/a" principal="a"').keytab == "/keys/a"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("", "useKeyTab=true or useTicketCache=true"),
        ("useKeyTab=true", 'keyTab="…" and principal="…"'),
        ('useKeyTab=true keyTab="/keys/a"', 'keyTab="…" and principal="…"'),
        ('useKeyTab=false keyTab="/keys/a" principal="a"', "useKeyTab=true or useTicketCache=true"),
    ],
)
def test_lines_that_name_nobody_are_refused(options: str, why: str) -> None:
    with pytest.raises(SettingError, match=why):
        login(options)


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        ({"sasl.jaas.config": KEYS}, "sasl.kerberos.service.name"),
        ({}, "sasl.kerberos.service.name"),
        (
            {
                "sasl.jaas.config": KEYS[:-1] + " serviceName=kafka;",
                "sasl.kerberos.service.name": "broker",
            },
            "sasl.kerberos.service.name",
        ),
        ({"sasl.jaas.config": KEYS.replace("Krb5", "NT")}, "sasl.jaas.config"),
    ],
)
def test_clients_that_lack_something_are_told_at_once(settings: dict[str, str], setting: str) -> None:
    with pytest.raises(SettingError) as told:
        new_kerberos_client(settings.get, "sasl.jaas.config")
    assert told.value.setting == setting


def test_a_machine_without_the_library_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gss_library, "LIBRARY", "libnobody.so.2")
    gss_library.gss_library.cache_clear()
    try:
        with pytest.raises(GssMissingError, match="libgssapi-krb5-2"):
            gss_library.gss_library()
        settings: dict[str, Any] = {"sasl.jaas.config": KEYS, "sasl.kerberos.service.name": "kafka"}
        with pytest.raises(SettingError, match="libgssapi-krb5-2"):
            new_kerberos_client(settings.get, "sasl.jaas.config")
    finally:
        gss_library.gss_library.cache_clear()


def test_a_listener_needs_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingError, match="useKeyTab=true"):
        new_acceptor(KerberosLogin("a"), "listener.name.x.gssapi.sasl.jaas.config")

    class Keyless:
        def acceptor(self, keytab: str, principal: str) -> None:
            raise kerberos_login.GssError(f"Key table file '{keytab}' not found")

    monkeypatch.setattr(kerberos_login, "gss_library", Keyless)
    with pytest.raises(SettingError, match="Key table file '/keys/a' not found"):
        new_acceptor(KerberosLogin("a", "/keys/a"), "listener.name.x.gssapi.sasl.jaas.config")
