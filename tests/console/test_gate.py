"""Who may ask the console: other sites, wrong hosts, missing tokens, broken and hostile requests."""

import asyncio
import json
import socket
from collections.abc import Iterator

import pytest

from headrace.console.assets import ASSETS_BYTES_MAX, Assets
from headrace.console.cluster_connection import ClusterSpec
from headrace.console.gate import LOGIN_TRIES_MAX, SESSIONS_MAX, Gate
from headrace.console.http_server import BODY_BYTES_MAX, HEAD_BYTES_MAX, ConsoleRequest, RefusedCallError
from headrace.console.routes import ROUTES
from tests.console.visitors import Visitor, running_console

# Nobody listens there: what is refused must be refused before any cluster is asked.
NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}
LOGIN = {**NOWHERE, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    specs = [ClusterSpec("c", NOWHERE), ClusterSpec("closed", LOGIN)]
    with running_console(specs, hosts=frozenset({"console.example"})) as address:
        yield address


@pytest.fixture
def visitor(address: tuple[str, int]) -> Visitor:
    return Visitor(address)


def status(visitor: Visitor, method: str, path: str, **headers: str) -> int:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return visitor.send(method, path, None if method == "GET" else {}, named)[0].status


def test_the_page_is_told_to_be_careful(visitor: Visitor) -> None:
    reply, content = visitor.send("GET", "/c/topics/anything")
    policy = reply.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy
    assert reply.headers["X-Frame-Options"] == "DENY"
    assert b"<script>" not in content
    assert b"onclick" not in content
    tag = reply.headers["ETag"]
    assert status(visitor, "GET", "/", If_None_Match=tag) == 304


def test_assets_are_small_and_ask_nobody_else() -> None:
    assets = Assets()
    assert 50_000 < assets.total_bytes < ASSETS_BYTES_MAX
    text = b"\n".join(assets.files.values()).decode()
    named = ("http://www.w3.org/2000/svg", "http://127.0.0.1:9500/metrics")  # a namespace, and an example
    foreign = text.replace(named[0], "").replace(named[1], "")
    assert "http://" not in foreign
    assert "https://" not in foreign
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
        assert word not in text, word


def test_the_cookie_is_for_this_site_and_no_script(address: tuple[str, int]) -> None:
    visitor = Visitor(address)
    reply, _ = visitor.send("GET", "/api/session", headers={"Cookie": ""})
    cookie = reply.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost", "[::1]:8080", "CONSOLE.example:80"])
def test_hosts_that_are_known(visitor: Visitor, host: str) -> None:
    assert status(visitor, "GET", "/api/session", Host=host) == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "", "127.0.0.1.evil.example:8080"]
)
def test_a_name_that_was_bound_to_this_address_is_refused(visitor: Visitor, host: str) -> None:
    for path in ("/", "/api/session", "/api/clusters/c/topics"):
        assert status(visitor, "GET", path, Host=host) == 421


def test_other_sites_are_refused(visitor: Visitor) -> None:
    host = f"{visitor.address[0]}:{visitor.address[1]}"
    path = "/api/clusters/c/topics"
    assert status(visitor, "POST", path, Origin="http://evil.example") == 403
    assert status(visitor, "POST", path, Origin="null") == 403
    assert status(visitor, "GET", path, Sec_Fetch_Site="cross-site") == 403
    assert status(visitor, "POST", path, Origin=f"http://{host}") == 400, "our own page goes on to be read"


@pytest.mark.parametrize(
    "route", [each for each in ROUTES if each.method != "GET"], ids=lambda each: each.path
)
def test_every_change_needs_the_token(visitor: Visitor, route: object) -> None:
    method, path = route.method, f"/api/clusters/c/{route.path}"  # type: ignore[attr-defined]
    assert status(visitor, method, path, X_Headrace_Token="") == 403
    assert status(visitor, method, path, X_Headrace_Token="0" * 64) == 403
    assert status(visitor, method, path, Cookie="") == 403


def test_a_read_only_console_changes_nothing() -> None:
    with running_console([ClusterSpec("c", NOWHERE)], is_read_only=True) as address:
        visitor = Visitor(address)
        assert visitor.session["read_only"] is True
        for route in ROUTES:
            if route.change:
                code, reason = visitor.refused(route.method, route.path.replace("{", "").replace("}", ""))
                assert (code, "read-only" in reason) == (403, True), route


def test_whoever_has_not_logged_in_sees_nothing(address: tuple[str, int]) -> None:
    visitor = Visitor(address, "closed")
    for route in ROUTES:
        path = route.path.replace("{", "").replace("}", "")
        assert visitor.refused(route.method, path)[0] == 401, route


def test_a_cluster_that_does_not_answer_is_told(visitor: Visitor) -> None:
    code, reason = visitor.refused("GET", "topics")
    assert code == 502
    assert "127.0.0.1:1" in reason


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET http://elsewhere/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nbroken\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * (2 * HEAD_BYTES_MAX) + b"\r\n\r\n", 431),
        (b"POST /api/login HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        (b"POST /api/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (BODY_BYTES_MAX + 1), 413),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 405),
        (b"GET /assets/../server.py HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET /api/nothing HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
    ],
)
def test_broken_requests_are_answered(address: tuple[str, int], sent: bytes, code: int) -> None:
    with socket.create_connection(address, timeout=30) as peer:
        peer.sendall(sent)
        assert peer.recv(100).split(b" ")[1] == str(code).encode()


def _request(cookie: str = "") -> ConsoleRequest:
    return ConsoleRequest("GET", "/", {}, {"host": "localhost", "cookie": cookie}, b"", "10.0.0.1")


def test_logging_in_has_a_limit() -> None:
    gate = Gate()
    for _ in range(LOGIN_TRIES_MAX):
        gate.count_try("10.0.0.1")
    with pytest.raises(RefusedCallError, match="wait a minute"):
        gate.count_try("10.0.0.1")
    gate.count_try("10.0.0.2")


def test_sessions_have_a_limit_and_move_to_the_cookie_of_the_login() -> None:
    gate = Gate()
    first = gate.open_session("a" * 40, "")
    moved = gate.open_session("b" * 40, "a" * 40)
    assert moved is first
    assert gate.session_of(_request("headrace_console=" + "a" * 40)) is None
    assert gate.session_of(_request("other=1; headrace_console=" + "b" * 40)) is first
    for number in range(SESSIONS_MAX - 1):
        gate.open_session(f"{number:040}", "")
    with pytest.raises(RefusedCallError, match="too many people"):
        gate.open_session("c" * 40, "")
    asyncio.run(gate.close())
    assert gate.session_of(_request("headrace_console=" + "b" * 40)) is None


def test_a_body_that_is_no_object_is_refused(visitor: Visitor) -> None:
    for body in (b"[1]", b"{", b"[" * 100_000, json.dumps("x").encode()):
        reply, _ = visitor.send("POST", "/api/login", body)
        assert reply.status == 400
