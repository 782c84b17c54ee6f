"""Logins by Kerberos, out of settings: a JAAS line of Java's Krb5LoginModule, or librdkafka's
sasl.kerberos.principal and sasl.kerberos.keytab.

    com.sun.security.auth.module.Krb5LoginModule required
        useKeyTab=true storeKey=true keyTab="/etc/kafka.keytab" principal="kafka/host@REALM";

A service has a key table. Who connects has one too, or takes the tickets that `kinit` has put into a cache.
Tickets that come of a key table are kept in memory for as long as the client lives; the library has new ones
when half of their time is over, which is why nothing here refreshes a login, and no program is run for it.
"""

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from headrace.security.gss_library import (
    GssCredential,
    GssLibrary,
    GssMissingError,
    GssUnreachableError,
    gss_library,
)
from headrace.security.jaas import KEYTAB_OPTION, JaasEntry
from headrace.security.login import JAAS, read_jaas
from headrace.security.sasl.gssapi import GssapiClient, GssError
from headrace.security.sasl.mechanism import GSSAPI, SaslClient, SaslError
from headrace.settings.definition import SettingError

SERVICE_NAME: Final = "sasl.kerberos.service.name"
PRINCIPAL: Final = "sasl.kerberos.principal"
KEYTAB: Final = "sasl.kerberos.keytab"
ANY_PRINCIPAL: Final = "*"


class KerberosLogin(NamedTuple):
    """Who somebody is: by the keys of a table, or by the tickets of a cache, which may be the system's."""

    principal: str = ""
    keytab: str = ""
    ticket_cache: str = ""
    service_name: str = ""


def system_kerberos(setting: str) -> GssLibrary:
    """SettingError where this machine has none."""
    try:
        return gss_library()
    except GssMissingError as error:
        raise SettingError(setting, str(error)) from None


def read_login(entry: JaasEntry, setting: str) -> KerberosLogin:
    """What a JAAS line of Krb5LoginModule says."""
    options = entry.options
    keytab, principal = keytab_path(options), options.get("principal", "")
    if _is_true(options, "useKeyTab"):
        if not keytab or not principal:
            raise SettingError(setting, 'useKeyTab=true needs keyTab="…" and principal="…"')
    elif _is_true(options, "useTicketCache"):
        keytab = ""
    else:
        raise SettingError(setting, "Krb5LoginModule needs useKeyTab=true or useTicketCache=true")
    cache = "" if keytab else options.get("ticketCache", "")
    return KerberosLogin(principal, keytab, cache, options.get("serviceName", ""))


def keytab_path(options: Mapping[str, str]) -> str:
    """The file that an option names, which may be written as an address of Kerberos' own."""
    return options.get(KEYTAB_OPTION, "").removeprefix("FILE:")


def new_acceptor(login: KerberosLogin, setting: str) -> GssCredential:
    """A service's keys; SettingError where there are none."""
    if not login.keytab:
        raise SettingError(setting, 'a listener needs useKeyTab=true keyTab="…" principal="…"')
    principal = "" if login.principal == ANY_PRINCIPAL else login.principal
    try:
        return system_kerberos(setting).acceptor(login.keytab, principal)
    except GssError as error:
        raise SettingError(setting, f"the keys of {login.principal} cannot be used: {error}") from None


def new_kerberos_client(
    get: Callable[[str], Any], jaas_setting: str
) -> Callable[[str], Awaitable[SaslClient]]:
    """What begins a login at a host; SettingError at once where the settings do not say who this is."""
    login = _login(get, jaas_setting)
    service = _service_name(get(SERVICE_NAME) or "", login.service_name)
    return _Initiator(system_kerberos(jaas_setting), login, service).begin


def _login(get: Callable[[str], Any], jaas_setting: str) -> KerberosLogin:
    if text := get(JAAS):
        return read_login(read_jaas(text, GSSAPI, jaas_setting), jaas_setting)
    return KerberosLogin(get(PRINCIPAL) or "", (get(KEYTAB) or "").removeprefix("FILE:"))


def _service_name(by_setting: str, by_jaas: str) -> str:
    if by_setting and by_jaas and by_setting != by_jaas:
        raise SettingError(
            SERVICE_NAME, f"it is {by_setting}, and serviceName in the JAAS line is {by_jaas}: leave one out"
        )
    if not by_setting and not by_jaas:
        raise SettingError(SERVICE_NAME, "GSSAPI needs it: the first part of the brokers' principal")
    return by_setting or by_jaas


def _is_true(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "").lower() == "true"


class _Initiator:
    """One client's or node's logins. What asks the KDC blocks, and is done by a thread, one at a time: a
    cache that two fill at once is empty for a moment."""

    def __init__(self, library: GssLibrary, login: KerberosLogin, service: str) -> None:
        self._library = library
        self._login = login
        self._service = service
        self._turn = asyncio.Lock()
        self._cache = login.ticket_cache
        if login.keytab:
            self._cache = library.new_cache()
            weakref.finalize(self, library.destroy_cache, self._cache)

    async def begin(self, host: str) -> SaslClient:
        loop = asyncio.get_running_loop()
        async with self._turn:
            try:
                return await loop.run_in_executor(None, self._begin, host)
            except GssUnreachableError as error:
                raise ConnectionError(f"{self._failure(host)}: {error}") from None
            except GssError as error:
                raise SaslError(f"{self._failure(host)}: {error}") from None

    def _failure(self, host: str) -> str:
        login = self._login
        source = (
            f"the keys of {login.keytab}" if login.keytab else f"the cache {self._cache or 'of the system'}"
        )
        return f"no ticket for {self._service}@{host} as {login.principal or 'anybody'} by {source}"

    def _begin(self, host: str) -> SaslClient:
        login = self._login
        credential = self._library.initiator(login.principal, login.keytab, self._cache)
        context = self._library.initiate(credential, self._service, host)
        return GssapiClient(context, context.step(b""))
