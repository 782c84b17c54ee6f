"""The console as a whole: takes a request through the gate, finds who answers, and tells of every change.

Paths: /assets/… are files, /api/session, /api/login, /api/oidc and /api/logout are about the visitor,
/api/clusters/NAME/… are rows of `routes.py`, and everything else is the page, which finds out by itself
what to show.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import unquote

from headrace.base.error_codes import ErrorCode
from headrace.clients.errors import (
    AuthenticationError,
    ClientError,
    NoPartitionError,
    NoSuchGroupError,
    NoSuchTopicError,
    RefusedError,
    TimedOutError,
    UnreachableError,
)
from headrace.console.assets import Assets
from headrace.console.cluster_connection import ClusterConnection, ClusterSpec
from headrace.console.cluster_watch import ClusterWatch
from headrace.console.course import CourseMemory
from headrace.console.gate import SECURITY_HEADERS, ConsoleSession, Gate
from headrace.console.http_server import (
    ConsoleReply,
    ConsoleRequest,
    ConsoleServer,
    EventReply,
    RefusedCallError,
)
from headrace.console.metrics_reader import MetricsReader
from headrace.console.oidc import CALLBACK, OidcError, PersonsToken
from headrace.console.oidc_logins import OidcLogins, refusal_page
from headrace.console.reading_limits import ReadingLimits
from headrace.console.routes import ConsoleRoute, find_route
from headrace.console.visit import Visit, text_of
from headrace.settings.definition import SettingError

log = logging.getLogger(__name__)
audit = logging.getLogger("headrace.console.audit")

ANONYMOUS: Final = "anonymous"
UPKEEP_S: Final = 60.0
_NO_RIGHT: Final = frozenset(code for code in ErrorCode if code.name.endswith("AUTHORIZATION_FAILED"))


class Console:
    """A console for these clusters; use `open` and `close` on a loop that runs."""

    def __init__(
        self,
        clusters: Sequence[ClusterSpec],
        *,
        hosts: frozenset[str] = frozenset(),
        is_read_only: bool = False,
    ) -> None:
        self._specs = {each.name: each for each in clusters}
        self._gate = Gate(hosts=hosts, is_read_only=is_read_only)
        self._assets = Assets()
        self._watches: dict[str, ClusterWatch] = {}
        self._metrics = {each.name: MetricsReader(each.metrics) for each in clusters if each.metrics}
        self._courses = CourseMemory()
        self._reading = ReadingLimits()
        self._oidc = OidcLogins({each.name: each.extras.oidc for each in clusters if each.extras.oidc})
        self._server = ConsoleServer(self.respond)
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self, host: str, port: int) -> tuple[str, int]:
        """Listen; returns the address with the port that was picked for 0. OSError where it is taken."""
        address = await self._server.listen(host, port)
        for spec in self._specs.values():
            if not spec.needs_login:
                watch = self._watches[spec.name] = ClusterWatch(ClusterConnection(spec), self._courses)
                watch.start()
        self._tasks.append(asyncio.create_task(self._upkeep()))
        self._tasks += [asyncio.create_task(each.run()) for each in self._metrics.values()]
        return address

    async def close(self) -> None:
        await self._server.close()
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self._gate.close()
        for watch in self._watches.values():
            await watch.close()

    async def _upkeep(self) -> None:
        while True:
            await asyncio.sleep(UPKEEP_S)
            await self._gate.forget_idle()

    # Requests

    async def respond(self, request: ConsoleRequest) -> ConsoleReply | EventReply:
        """Answer a request; whatever the answer is, the browser is told to be careful."""
        try:
            reply = await self._dispatch(request)
        except RefusedCallError as error:
            reply = ConsoleReply.json({"error": str(error)}, error.status)
        except (ClientError, SettingError) as error:
            reply = ConsoleReply.json({"error": str(error)}, _status_of(error))
        reply.headers.update(SECURITY_HEADERS)
        if request.path.startswith("/api/"):
            reply.headers["Cache-Control"] = "no-store"
        return reply

    async def _dispatch(self, request: ConsoleRequest) -> ConsoleReply | EventReply:
        if request.path.startswith("/api/clusters/"):
            return await self._about_cluster(request)
        if request.path == CALLBACK:
            return await self._oidc_callback(request)
        if not request.path.startswith("/api/"):
            self._gate.check(request, is_change=False, needs_token=False)
            if request.method not in ("GET", "HEAD"):
                raise RefusedCallError(405, "pages are only read")
            return self._assets.reply(request)
        match request.method, request.path:
            case "GET", "/api/session":
                return self._session(request)
            case "POST", "/api/login":
                return await self._login(request)
            case "POST", "/api/oidc":
                return await self._begin_oidc(request)
            case "POST", "/api/logout":
                self._gate.check(request, is_change=False, needs_token=True)
                await self._gate.close_session(self._gate.cookie_of(request))
                return ConsoleReply.json({})
        raise RefusedCallError(404, "there is nothing of this name")

    async def _about_cluster(self, request: ConsoleRequest) -> ConsoleReply | EventReply:
        name, _, rest = request.path.removeprefix("/api/clusters/").partition("/")
        spec = self._specs.get(unquote(name))
        found = find_route(request.method, rest)
        is_change = found is not None and bool(found[0].change)
        self._gate.check(request, is_change=is_change, needs_token=request.method != "GET")
        if spec is None or found is None:
            raise RefusedCallError(404, f"there is no {request.method} of this name")
        route, arguments = found
        visit = self._visit(request, spec, arguments)
        result = await (self._change(route, visit) if route.change else route.handler(visit))
        return result if isinstance(result, ConsoleReply | EventReply) else ConsoleReply.json(result)

    def _visit(self, request: ConsoleRequest, spec: ClusterSpec, arguments: dict[str, str]) -> Visit:
        metrics = self._metrics.get(spec.name)
        if not spec.needs_login:
            watch = self._watches[spec.name]
            return Visit(request, arguments, watch, ANONYMOUS, metrics, reading=self._reading)
        session = self._gate.session_of(request)
        if session is None or spec.name not in session.watches:
            raise RefusedCallError(401, f"log in to cluster {spec.name!r} first")
        watch, user = session.watches[spec.name], session.users[spec.name]
        return Visit(request, arguments, watch, user, metrics, needs_login=True, reading=self._reading)

    async def _change(self, route: ConsoleRoute, visit: Visit) -> Any:
        result = "failed"
        try:
            answer = await route.handler(visit)
            result = "done"
            return answer
        except (ClientError, SettingError, RefusedCallError) as error:
            result = f"refused: {error}"
            raise
        finally:
            event = {
                "user": visit.user,
                "from": visit.request.peer,
                "cluster": visit.connection.spec.name,
                "change": route.change,
                "on": {**visit.arguments, **visit.details},
                "result": result,
            }
            audit.info("%s", json.dumps(event, ensure_ascii=True))

    # Visitors

    def _session(self, request: ConsoleRequest) -> ConsoleReply:
        """Who the visitor is, which clusters there are, and the token for changes."""
        self._gate.check(request, is_change=False, needs_token=False)
        cookie = self._gate.cookie_of(request)
        is_new = not cookie
        cookie = cookie or self._gate.new_cookie()
        session = self._gate.session_of(request) or ConsoleSession()
        reply = ConsoleReply.json(
            {
                "token": self._gate.token_of(cookie),
                "read_only": self._gate.is_read_only,
                "clusters": [
                    {
                        "name": each.name,
                        "needs_login": each.needs_login,
                        "user": session.users.get(each.name),
                        "mechanism": each.mechanism if each.needs_login else "",
                        "issuer": each.extras.oidc.issuer if each.extras.oidc else "",
                    }
                    for each in self._specs.values()
                ],
            }
        )
        if is_new:
            reply.headers["Set-Cookie"] = self._gate.set_cookie(cookie)
        return reply

    async def _login(self, request: ConsoleRequest) -> ConsoleReply:
        """Try the visitor's credentials on the cluster itself; they are kept in memory, for its connections.

        A session gets a new cookie, so that one that was known before the login is worth nothing.
        """
        self._gate.check(request, is_change=False, needs_token=True)
        body = request.json()
        spec = self._specs.get(text_of(body, "cluster"))
        user = text_of(body, "user")
        if spec is None or not spec.needs_login:
            raise RefusedCallError(404, "there is no such cluster to log in to")
        self._gate.count_try(request.peer)
        cookie = await self._enter(
            spec, spec.of_user(user, text_of(body, "password")), user, request, self._gate.cookie_of(request)
        )
        reply = ConsoleReply.json({"user": user, "token": self._gate.token_of(cookie)})
        reply.headers["Set-Cookie"] = self._gate.set_cookie(cookie)
        return reply

    async def _enter(
        self, spec: ClusterSpec, own: ClusterSpec, user: str, request: ConsoleRequest, before: str
    ) -> str:
        """The cookie of a session that has logged in to the cluster, in place of the one before."""
        event = {"user": user, "from": request.peer, "cluster": spec.name, "change": "login"}
        connection = ClusterConnection(own)
        try:
            await connection.admin.describe_cluster()
        except ClientError as error:
            await connection.close()
            audit.info("%s", json.dumps({**event, "result": f"refused: {error}"}))
            raise
        watch = ClusterWatch(connection, self._courses)
        cookie = self._gate.new_cookie()
        try:
            session = self._gate.open_session(cookie, before)
        except RefusedCallError:
            await watch.close()
            raise
        if spec.name in session.watches:
            await session.watches.pop(spec.name).close()
        session.users[spec.name] = user
        session.watches[spec.name] = watch
        watch.start()
        audit.info("%s", json.dumps({**event, "result": "done"}))
        return cookie

    async def _begin_oidc(self, request: ConsoleRequest) -> ConsoleReply:
        self._gate.check(request, is_change=False, needs_token=True)
        body = request.json()
        before = self._gate.cookie_of(request)
        return await self._oidc.begin(request, text_of(body, "cluster"), text_of(body, "to"), before)

    async def _oidc_callback(self, request: ConsoleRequest) -> ConsoleReply:
        """The provider has sent the browser back: into the cluster, or a page that says why not."""
        self._gate.check(request, is_change=False, needs_token=False)
        cluster = ""
        try:
            login = self._oidc.take(request)
            cluster = login.cluster
            grant = await self._oidc.finish(login, request)
            spec = self._specs[cluster]
            token = PersonsToken(self._oidc.providers[cluster], grant)
            cookie = await self._enter(spec, spec.of_token(token), grant.user, request, login.before)
        except (OidcError, ClientError, RefusedCallError) as error:
            if not isinstance(error, ClientError):
                event = {"from": request.peer, "cluster": cluster, "change": "login"}
                audit.info("%s", json.dumps({**event, "result": f"refused: {error}"}))
            return refusal_page(cluster, str(error))
        headers = {
            "Location": login.to,
            "Set-Cookie": self._gate.set_cookie(cookie),
            "Cache-Control": "no-store",
        }
        return ConsoleReply(303, headers=headers)


def _status_of(error: Exception) -> int:
    match error:
        case AuthenticationError():
            return 401
        case NoSuchTopicError() | NoSuchGroupError() | NoPartitionError():
            return 404
        case RefusedError():
            return 403 if error.code in _NO_RIGHT else 409
        case TimedOutError():
            return 504
        case UnreachableError():
            return 502
    return 400
