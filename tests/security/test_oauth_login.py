"""Where a client's tokens come from, and which addresses are never asked."""

import asyncio
import json
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from headrace.security.oauth_login import endpoint_token, provided_token
from headrace.security.sasl.mechanism import SaslError
from headrace.security.system_http import ANSWER_BYTES_MAX, check_url, fetch_url
from headrace.settings.definition import SettingError

SETTINGS = {
    "sasl.oauthbearer.token.endpoint.url": "https://issuer.example/token",
    "sasl.oauthbearer.client.credentials.client.id": "id",
    "sasl.oauthbearer.client.credentials.client.secret": "hunter2",
    "sasl.oauthbearer.scope": "kafka",
}


class Endpoint:
    def __init__(self, *answers: bytes | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, bytes, Any]] = []

    def __call__(self, url: str, *, data: bytes, headers: Any) -> bytes:
        self.asked.append((url, data, headers))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def tokens(endpoint: Endpoint, count: int, settings: dict[str, str] = SETTINGS) -> list[str]:
    async def get() -> list[str]:
        get_token = endpoint_token(settings.get, endpoint)
        assert get_token is not None
        return list(await asyncio.gather(*(get_token() for _ in range(count))))

    return asyncio.run(get())


def test_a_token_is_asked_for_once_while_it_is_good() -> None:
    endpoint = Endpoint(json.dumps({"access_token": "t1", "expires_in": 600}).encode())
    assert tokens(endpoint, 3) == ["t1"] * 3
    ((url, data, headers),) = endpoint.asked
    assert url == "https://issuer.example/token"
    assert data == b"grant_type=client_credentials&scope=kafka"
    assert headers["Authorization"] == "Basic aWQ6aHVudGVyMg=="


@pytest.mark.parametrize(
    "answer",
    [b"", b"[]", b"{}", b'{"access_token": 7}', b'{"access_token": "x", "expires_in": "y"}', OSError("x")],
)
def test_an_answer_without_a_token_is_told_without_the_secret(answer: bytes | Exception) -> None:
    with pytest.raises(SaslError, match=r"no token from https://issuer\.example/token") as failure:
        tokens(Endpoint(answer), 1)
    assert "hunter2" not in str(failure.value)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "http://169.254.169.254/",
        "ftp://x/",
        "https://",
        "jar:file:///x",
        "localhost:1",
        "",
    ],
)
def test_other_addresses_are_never_asked(url: str) -> None:
    """CVE-2025-27817."""
    with pytest.raises(ValueError, match="only https"):
        check_url(url)
    with pytest.raises(ValueError, match="only https"):
        fetch_url(url)
    if url:
        with pytest.raises(SettingError, match="only https"):
            endpoint_token((SETTINGS | {"sasl.oauthbearer.token.endpoint.url": url}).get, Endpoint())


def test_settings_without_a_secret() -> None:
    settings = {name: value for name, value in SETTINGS.items() if "secret" not in name}
    with pytest.raises(SettingError, match=r"client\.secret"):
        endpoint_token(settings.get, Endpoint())
    assert endpoint_token({}.get, Endpoint()) is None


def test_tokens_of_a_function() -> None:
    def get(provide: Callable[[], Any]) -> str:
        async def run() -> str:
            return await provided_token(provide)()

        return asyncio.run(run())

    assert get(lambda: "t") == "t"
    with pytest.raises(SaslError, match="gave no text"):
        get(lambda: None)
    with pytest.raises(SaslError, match="ZeroDivisionError"):
        get(lambda: 1 / 0)


class Answering(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/elsewhere":
            self.send_response(302)
            self.send_header("Location", "file:///etc/passwd")
            self.end_headers()
            return
        self.send_response(200)
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(b"x" * (ANSWER_BYTES_MAX + 1) if self.path == "/large" else b"hello")

    def log_message(self, *_: Any) -> None:
        pass


def test_redirections_and_endless_answers_are_refused() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        base = f"http://127.0.0.1:{server.server_port}"
        assert fetch_url(f"{base}/") == b"hello"
        with pytest.raises(OSError, match="HTTP 302"):
            fetch_url(f"{base}/elsewhere")
        with pytest.raises(ValueError, match="more than"):
            fetch_url(f"{base}/large")
        server.shutdown()
        thread.join()
