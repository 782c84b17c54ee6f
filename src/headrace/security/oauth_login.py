"""A client's tokens for OAUTHBEARER: from the provider's endpoint (client credentials, RFC 6749 4.4), or from
a function of the user's.

A token is kept until most of its time is over, for all connections of the client. Neither it nor the secret
is ever in a message.
"""

import asyncio
import base64
import json
import urllib.parse
from collections.abc import Awaitable, Callable
from typing import Any, Final

from headrace.security.login import JAAS, GetToken, read_jaas
from headrace.security.sasl.mechanism import OAUTHBEARER, SaslError
from headrace.security.system_http import check_url
from headrace.settings.definition import SettingError

ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"
SCOPE: Final = "sasl.oauthbearer.scope"

KEPT: Final = 0.8
"""Of a token's time, as in Kafka (sasl.login.refresh.window.factor)."""

Fetch = Callable[..., bytes]


def provided_token(provide: Callable[[], Any]) -> GetToken:
    """Tokens of a function that the user gives; it may block, so a thread calls it."""

    async def get_token() -> str:
        try:
            token = await asyncio.get_running_loop().run_in_executor(None, provide)
        except Exception as error:
            raise SaslError(f"the function that gives tokens failed: {type(error).__name__}") from error
        if not isinstance(token, str):
            raise SaslError("the function that gives tokens gave no text")
        return token

    return get_token


def endpoint_token(get: Callable[[str], Any], fetch: Fetch, jaas_setting: str = JAAS) -> GetToken | None:
    """Tokens of the provider that the settings name; None where they name none, SettingError where they are
    wrong."""
    url = get(ENDPOINT)
    if not url:
        return None
    try:
        check_url(url)
    except ValueError as error:
        raise SettingError(ENDPOINT, str(error)) from None
    text = get(JAAS)
    options = read_jaas(text, OAUTHBEARER, jaas_setting).options if text else {}
    client_id = get(CLIENT_ID) or options.get("clientId")
    secret = get(CLIENT_SECRET) or options.get("clientSecret")
    if not client_id or not secret:
        raise SettingError(CLIENT_ID, f"{ENDPOINT} needs it, and {CLIENT_SECRET}")
    source = _TokenSource(url, client_id, secret, get(SCOPE) or options.get("scope") or "", fetch)
    return source.get_token


class _TokenSource:
    def __init__(self, url: str, client_id: str, secret: str, scope: str, fetch: Fetch) -> None:
        self._url = url
        words = ":".join(urllib.parse.quote_plus(each) for each in (client_id, secret))
        self._headers = {
            "Authorization": "Basic " + base64.b64encode(words.encode()).decode(),
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }
        form = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
        self._data = urllib.parse.urlencode(form).encode()
        self._fetch = fetch
        self._token = ""
        self._kept_until = 0.0
        self._asking: asyncio.Task[None] | None = None

    def get_token(self) -> Awaitable[str]:
        return self._get()

    async def _get(self) -> str:
        loop = asyncio.get_running_loop()
        if loop.time() >= self._kept_until:
            if self._asking is None:
                self._asking = loop.create_task(self._ask())
                self._asking.add_done_callback(self._asked)
            await asyncio.shield(self._asking)
        return self._token

    def _asked(self, task: "asyncio.Task[None]") -> None:
        self._asking = None

    async def _ask(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            body = await loop.run_in_executor(
                None, lambda: self._fetch(self._url, data=self._data, headers=self._headers)
            )
            answer = json.loads(body)
            token, lasts_s = answer["access_token"], float(answer.get("expires_in", 0))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            why = str(error) if isinstance(error, OSError) else "the answer has no token"
            raise SaslError(f"no token from {self._url}: {why}") from None
        if not isinstance(token, str):
            raise SaslError(f"no token from {self._url}: the answer has no token")
        self._token = token
        self._kept_until = loop.time() + max(lasts_s, 0.0) * KEPT
