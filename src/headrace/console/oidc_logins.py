"""Logins by OIDC that are under way: begun by a page of the console, finished by the browser that began it.

A login is known by its state, for ten minutes and once. The browser that begins one gets a cookie of its own,
and only with that cookie is the provider's answer taken: a link that somebody else sends finishes nothing.
That cookie is Lax, for the provider's page leads back here; the session's own is not sent on such a way.
"""

import asyncio
import html
import secrets
import time
from typing import Final, NamedTuple
from urllib.parse import quote, urlsplit

from headrace.console.http_server import ConsoleReply, ConsoleRequest, RefusedCallError
from headrace.console.oidc import CALLBACK, Grant, OidcError, OidcProvider, OidcSpec

COOKIE: Final = "headrace_oidc"
LOGIN_S: Final = 600.0
LOGINS_MAX: Final = 10_000
"""Some kilobyte each. The oldest goes first."""
_PLACE_MAX: Final = 2_000


class OidcLogin(NamedTuple):
    """One that is under way. `before` is the session's cookie when it began, `to` where the person was."""

    cluster: str
    nonce: str
    verifier: str
    binding: str
    redirect_url: str
    before: str
    to: str
    until_s: float


class OidcLogins:
    """See above; `providers` by the names of their clusters."""

    def __init__(self, specs: dict[str, OidcSpec]) -> None:
        self.providers = {name: OidcProvider(spec) for name, spec in specs.items()}
        self._logins: dict[str, OidcLogin] = {}

    async def begin(self, request: ConsoleRequest, cluster: str, to: str, before: str) -> ConsoleReply:
        """Where the page should send the browser."""
        provider = self.providers.get(cluster)
        if provider is None:
            raise RefusedCallError(404, "there is no such cluster to log in to by OIDC")
        state, nonce, verifier, binding = (secrets.token_urlsafe(48) for _ in range(4))
        redirect_url = provider.spec.redirect_url or _own_address(request) + CALLBACK
        try:
            url = await asyncio.to_thread(
                provider.authorization_url,
                state=state,
                nonce=nonce,
                verifier=verifier,
                redirect_url=redirect_url,
            )
        except OidcError as error:
            raise RefusedCallError(502, str(error)) from None
        self._forget()
        until_s = time.monotonic() + LOGIN_S
        self._logins[state] = OidcLogin(
            cluster, nonce, verifier, binding, redirect_url, before, _place(to, cluster), until_s
        )
        reply = ConsoleReply.json({"url": url})
        is_tls = "; Secure" if redirect_url.startswith("https:") else ""
        reply.headers["Set-Cookie"] = (
            f"{COOKIE}={binding}; Path={CALLBACK}; HttpOnly; SameSite=Lax; Max-Age={int(LOGIN_S)}{is_tls}"
        )
        return reply

    def _forget(self) -> None:
        now_s = time.monotonic()
        for state in [state for state, each in self._logins.items() if each.until_s < now_s]:
            del self._logins[state]
        while len(self._logins) >= LOGINS_MAX:
            del self._logins[next(iter(self._logins))]

    def take(self, request: ConsoleRequest) -> OidcLogin:
        """The login that an answer belongs to; OidcError where it is nobody's, or another browser's."""
        login = self._logins.get(request.query.get("state", ""))
        if login is None or login.until_s < time.monotonic():
            raise OidcError("this login is not known here, or took too long: begin it again")
        given = _cookie(request.headers.get("cookie", ""))
        if not secrets.compare_digest(given.encode(), login.binding.encode()):
            raise OidcError("this login was begun in another browser: begin it again")
        del self._logins[request.query["state"]]
        return login

    async def finish(self, login: OidcLogin, request: ConsoleRequest) -> Grant:
        """Whom the provider lets in; OidcError where it does not."""
        provider = self.providers[login.cluster]
        issuer = request.query.get("iss", provider.spec.issuer)  # RFC 9207
        if issuer != provider.spec.issuer:
            raise OidcError("the answer is of another provider")
        if "error" in request.query:
            said = request.query.get("error_description") or request.query["error"]
            raise OidcError(f"the provider refused: {said[:200]}")
        code = request.query.get("code", "")
        if not code:
            raise OidcError("the provider's answer has no code")
        return await asyncio.to_thread(
            provider.exchange,
            code,
            verifier=login.verifier,
            redirect_url=login.redirect_url,
            nonce=login.nonce,
        )


def refusal_page(cluster: str, why: str) -> ConsoleReply:
    """A page without scripts: the browser comes from elsewhere, and may have no session."""
    back = f'<a href="/{quote(cluster, safe="")}">Back to the console</a>'
    text = f"<h1>The login did not come about</h1><p>{html.escape(why)}</p><p>{back}</p>"
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Login · headrace console</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="stylesheet" href="/assets/console.css"></head>'
        f'<body><main class="content">{text}</main></body></html>'
    )
    return ConsoleReply(401, page.encode(), "text/html; charset=utf-8")


def _own_address(request: ConsoleRequest) -> str:
    """As the browser has it: a proxy with TLS may be between."""
    origin = urlsplit(request.headers.get("origin", ""))
    scheme = origin.scheme if origin.scheme in ("http", "https") else "http"
    return f"{scheme}://{request.headers.get('host', '')}"


def _place(to: str, cluster: str) -> str:
    """A path of the console's own; its first page for anything else."""
    is_own = to.startswith("/") and not to.startswith("//") and len(to) <= _PLACE_MAX
    is_plain = to.isascii() and to.isprintable() and not set(to) & set(' \\"')
    return to if is_own and is_plain else f"/{quote(cluster, safe='')}"


def _cookie(text: str) -> str:
    for part in text.split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""
