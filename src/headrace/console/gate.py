"""Who may ask the console for what, before anything is asked of a cluster.

- Pages of other sites must not reach a console on somebody's machine: the Host must be an address, localhost
  or a name that was allowed (a rebound DNS name is neither), and an Origin must be the console's own.
- A change needs the token of its session, which only the console's own pages can read.
- A session is a random cookie that scripts cannot read and other sites do not send. What it stands for is in
  memory only, and forgotten after a while without use.
"""

import hashlib
import hmac
import ipaddress
import logging
import secrets
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from headrace.console.cluster_watch import ClusterWatch
from headrace.console.http_server import ConsoleRequest, RefusedCallError

log = logging.getLogger(__name__)

COOKIE: Final = "headrace_console"
TOKEN_HEADER: Final = "x-headrace-token"
SESSION_IDLE_S: Final = 8 * 3600.0
SESSIONS_MAX: Final = 200
"""Each has connections of its own to every broker."""
LOGIN_TRIES_MAX: Final = 10
LOGIN_TRIES_S: Final = 60.0

SECURITY_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(slots=True)
class ConsoleSession:
    """A person who has logged in to clusters, and what is watched with that person's rights."""

    users: dict[str, str] = field(default_factory=dict)
    watches: dict[str, ClusterWatch] = field(default_factory=dict)
    used_s: float = field(default_factory=time.monotonic)

    async def close(self) -> None:
        for watch in self.watches.values():
            await watch.close()


class Gate:
    """Checks requests, and knows the sessions."""

    def __init__(self, *, hosts: frozenset[str] = frozenset(), is_read_only: bool = False) -> None:
        self.is_read_only = is_read_only
        self._hosts = hosts | {"localhost"}
        self._secret = secrets.token_bytes(32)
        self._sessions: dict[str, ConsoleSession] = {}
        self._tries: dict[str, deque[float]] = {}

    def check(self, request: ConsoleRequest, *, is_change: bool, needs_token: bool) -> None:
        """RefusedCallError for what may not be asked, or not in this way."""
        host = request.headers.get("host", "")
        if not self._is_known(host):
            raise RefusedCallError(
                421, "the console does not know itself by this name: start it with --allow-host NAME"
            )
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            raise RefusedCallError(403, "another site has sent this request")
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none") and (
            needs_token or request.path.startswith("/api/")
        ):
            raise RefusedCallError(403, "another site has sent this request")
        if needs_token and not self._has_token(request):
            raise RefusedCallError(403, "the session's token is missing or old: load the page again")
        if is_change and self.is_read_only:
            raise RefusedCallError(403, "this console is read-only: it was started so")

    def _is_known(self, host: str) -> bool:
        name = host.lower()
        if name.startswith("["):
            name = name[1:].partition("]")[0]
        elif name.count(":") == 1:
            name = name.partition(":")[0]
        if name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    # Sessions

    def cookie_of(self, request: ConsoleRequest) -> str:
        """The cookie that a request came with; empty where there is none."""
        for part in request.headers.get("cookie", "").split(";"):
            name, _, value = part.strip().partition("=")
            if name == COOKIE and 20 <= len(value) <= 100:
                return value
        return ""

    def new_cookie(self) -> str:
        return secrets.token_urlsafe(32)

    def set_cookie(self, cookie: str) -> str:
        """The header that gives it to a browser."""
        return f"{COOKIE}={cookie}; Path=/; HttpOnly; SameSite=Strict"

    def token_of(self, cookie: str) -> str:
        """What changes must bring along. It follows from the cookie, so that visitors cost no memory."""
        return hmac.new(self._secret, cookie.encode(), hashlib.sha256).hexdigest()

    def _has_token(self, request: ConsoleRequest) -> bool:
        cookie = self.cookie_of(request)
        given = request.headers.get(TOKEN_HEADER, "")
        return bool(cookie) and hmac.compare_digest(given.encode(), self.token_of(cookie).encode())

    def session_of(self, request: ConsoleRequest) -> ConsoleSession | None:
        session = self._sessions.get(self.cookie_of(request))
        if session is not None:
            session.used_s = time.monotonic()
        return session

    def open_session(self, cookie: str, before: str) -> ConsoleSession:
        """The session of a cookie that takes the place of the one before. RefusedCallError: too many."""
        kept = self._sessions.pop(before, None)
        if kept is None and len(self._sessions) >= SESSIONS_MAX:
            log.warning("refused a login: %d people are logged in. Start another console", SESSIONS_MAX)
            raise RefusedCallError(503, "too many people are logged in: try again later")
        session = self._sessions[cookie] = kept or ConsoleSession()
        return session

    async def close_session(self, cookie: str) -> None:
        session = self._sessions.pop(cookie, None)
        if session is not None:
            await session.close()

    async def forget_idle(self) -> None:
        """Close what nobody has used for long."""
        before_s = time.monotonic() - SESSION_IDLE_S
        for cookie in [cookie for cookie, each in self._sessions.items() if each.used_s < before_s]:
            await self.close_session(cookie)
        for peer in [
            peer for peer, tries in self._tries.items() if time.monotonic() - tries[-1] > LOGIN_TRIES_S
        ]:
            del self._tries[peer]

    async def close(self) -> None:
        for cookie in list(self._sessions):
            await self.close_session(cookie)

    def count_try(self, peer: str) -> None:
        """Of logging in; RefusedCallError where an address tries too often."""
        tries = self._tries.setdefault(peer, deque(maxlen=LOGIN_TRIES_MAX))
        now_s = time.monotonic()
        if len(tries) == LOGIN_TRIES_MAX and now_s - tries[0] < LOGIN_TRIES_S:
            log.warning("refused logins from %s: %d in a minute", peer, LOGIN_TRIES_MAX)
            raise RefusedCallError(429, "too many attempts to log in: wait a minute")
        tries.append(now_s)
