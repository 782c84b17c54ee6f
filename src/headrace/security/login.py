"""Who a client says it is, out of its settings: Kafka's JAAS line, librdkafka's sasl.username and
sasl.password, or a function of the user's that is asked at each login, so that a password may change while
the client runs.

`new_client` gives what begins a login of the mechanism. For OAUTHBEARER it asks for a token: from a function
of the user's, or from the provider's endpoint (`oauth_login.py`). For GSSAPI the KDC is asked for a ticket
(`kerberos_login.py`).
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from headrace.security.jaas import JaasEntry, JaasError, parse_jaas
from headrace.security.sasl import scram
from headrace.security.sasl.mechanism import GSSAPI, MECHANISMS, OAUTHBEARER, PLAIN, SaslClient, SaslError
from headrace.security.sasl.oauthbearer import OAuthBearerClient
from headrace.security.sasl.plain import PlainClient
from headrace.security.sasl.scram import SCRAM_MECHANISMS, RandomBytes
from headrace.security.sasl.scram_client import ScramClient
from headrace.settings.definition import SettingError

JAAS: Final = "sasl.jaas.config"

CREDENTIALS_PROVIDER: Final = "sasl.credentials.provider"

GetToken = Callable[[], Awaitable[str]]
GetCredentials = Callable[[], Awaitable["Credentials"]]


class Credentials(NamedTuple):
    """A name and a password, or a token's id and its HMAC."""

    username: str
    password: str
    is_token: bool = False

    def __repr__(self) -> str:
        return f"Credentials({self.username!r})"


def check_mechanism(mechanism: str, setting: str) -> None:
    """SettingError where this is no mechanism that there is."""
    if mechanism in MECHANISMS:
        return
    raise SettingError(setting, f"{mechanism} is no SASL mechanism: give one of {', '.join(MECHANISMS)}")


def read_jaas(text: str, mechanism: str, setting: str = JAAS) -> JaasEntry:
    """A JAAS line for this mechanism; SettingError where it is wrong, or for another one."""
    try:
        entry = parse_jaas(text)
    except JaasError as error:
        raise SettingError(setting, str(error)) from None
    if mechanism not in entry.mechanisms:
        raise SettingError(
            setting, f"{entry.module} is for {' and '.join(entry.mechanisms)}, not {mechanism}"
        )
    return entry


def new_client(
    mechanism: str,
    get: Callable[[str], Any],
    *,
    random_bytes: RandomBytes,
    get_token: GetToken | None = None,
    get_credentials: GetCredentials | None = None,
    jaas_setting: str = JAAS,
) -> Callable[[str], Awaitable[SaslClient]]:
    """What begins a login at a host; SettingError at once where the settings, read by `get`, do not say who
    this is."""
    if mechanism == OAUTHBEARER:
        return _oauth_client(get_token)
    if mechanism == GSSAPI:
        # Most machines need no Kerberos.
        from headrace.security.kerberos_login import new_kerberos_client

        return new_kerberos_client(get, jaas_setting)
    get_credentials = get_credentials or _fixed(_credentials(mechanism, get, jaas_setting))

    async def begin(host: str) -> SaslClient:
        credentials = await get_credentials()
        if mechanism == PLAIN:
            return PlainClient(credentials.username, credentials.password)
        extensions = {scram.TOKEN_AUTH: "true"} if credentials.is_token else None
        return ScramClient(
            SCRAM_MECHANISMS[mechanism],
            credentials.username,
            credentials.password,
            random_bytes=random_bytes,
            extensions=extensions,
        )

    return begin


def provided_credentials(provide: Callable[[], Any]) -> GetCredentials:
    """User and password of a function that the user gives; it may block, so a thread calls it."""

    async def get_credentials() -> Credentials:
        try:
            username, password = await asyncio.get_running_loop().run_in_executor(None, provide)
        except Exception as error:
            # Its words may have the password.
            raise SaslError(
                f"the function of {CREDENTIALS_PROVIDER} failed: {type(error).__name__}"
            ) from None
        if not (isinstance(username, str) and isinstance(password, str) and username and password):
            raise SaslError(f"the function of {CREDENTIALS_PROVIDER} gave no user and password, as two texts")
        return Credentials(username, password)

    return get_credentials


def _fixed(credentials: Credentials) -> GetCredentials:
    async def get_credentials() -> Credentials:
        return credentials

    return get_credentials


def _credentials(mechanism: str, get: Callable[[str], Any], jaas_setting: str) -> Credentials:
    if text := get(JAAS):
        entry = read_jaas(text, mechanism, jaas_setting)
        if not entry.username or not entry.password:
            raise SettingError(jaas_setting, f'{mechanism} needs username="…" and password="…"')
        is_token = entry.options.get(scram.TOKEN_AUTH, "").lower() == "true"
        return Credentials(entry.username, entry.password, is_token)
    username, password = get("sasl.username"), get("sasl.password")
    if not username or not password:
        raise SettingError(
            jaas_setting, f"{mechanism} needs a user: set it, or sasl.username and sasl.password"
        )
    return Credentials(username, password)


def _oauth_client(get_token: GetToken | None) -> Callable[[str], Awaitable[SaslClient]]:
    if get_token is None:
        raise SettingError(
            "sasl.oauthbearer.token.endpoint.url", "OAUTHBEARER needs it, or a function that gives tokens"
        )

    async def begin(host: str) -> SaslClient:
        return OAuthBearerClient(await get_token())

    return begin
