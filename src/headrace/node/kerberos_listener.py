"""Logins by Kerberos at a listener, out of settings: its keys, and the rules that make users of principals.

Both can be replaced while the node runs; a line that cannot be used leaves the former in force. Keys that are
added to the table itself count at once: it is read at each login.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.security.gss_library import GssCredential
from headrace.security.kerberos_login import new_acceptor, read_login, system_kerberos
from headrace.security.kerberos_short_namer import SETTING as RULES
from headrace.security.kerberos_short_namer import KerberosShortNamer, NoMatchingRuleError
from headrace.security.login import JAAS, read_jaas
from headrace.security.sasl.gssapi import GssapiServer
from headrace.security.sasl.mechanism import GSSAPI, SaslError, SaslServer
from headrace.settings.definition import SettingError

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _InForce:
    jaas: str = field(repr=False)
    rules: tuple[str, ...]
    keys: GssCredential
    namer: KerberosShortNamer


def new_gssapi_server(get: Callable[[str], Any], jaas_setting: str) -> Callable[[], SaslServer]:
    """What begins an exchange; SettingError now where nobody could log in."""
    library = system_kerberos("sasl.enabled.mechanisms")
    realm = library.default_realm()

    def read() -> _InForce:
        text, rules = get(JAAS) or "", get(RULES)
        if not text:
            raise SettingError(
                jaas_setting, "GSSAPI needs it: Krb5LoginModule, with a keytab and a principal"
            )
        login = read_login(read_jaas(text, GSSAPI, jaas_setting), jaas_setting)
        return _InForce(text, rules, new_acceptor(login, jaas_setting), KerberosShortNamer(rules, realm))

    in_force = read()

    def begin() -> SaslServer:
        nonlocal in_force
        if (get(JAAS), get(RULES)) != (in_force.jaas, in_force.rules):
            try:
                in_force = read()
            except SettingError as wrong:
                logger.warning("logins by Kerberos stay as they were: %s", wrong)
                in_force = replace(in_force, jaas=get(JAAS), rules=get(RULES))
        return GssapiServer(library.accept(in_force.keys), _user_of(in_force.namer))

    return begin


def _user_of(namer: KerberosShortNamer) -> Callable[[str], str]:
    def user_of(principal: str) -> str:
        try:
            return namer.user_of(principal)
        except NoMatchingRuleError as error:
            raise SaslError(str(error)) from None

    return user_of
