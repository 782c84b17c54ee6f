"""A small OpenID provider on this machine: it lets in whom a test says, and keeps the rules that matter here.

A code is good once and with its PKCE verifier, for the client and the address that it was made for. It is at
`localhost`, and the console at 127.0.0.1: for a browser that is another site.
"""

import base64
import hashlib
import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from tests.security.sasl.tokens import key_set, rsa_key, signed

CLIENT, SECRET, AUDIENCE = "console", "client-secret", "kafka"


class OpenIdProvider:
    """Serves while it is entered. `id_token` and `discovery` are changes to what it says."""

    def __init__(self) -> None:
        self.user = "alice"
        self.lasts_s = 3600
        self.id_token: dict[str, Any] = {}
        self.discovery: dict[str, Any] = {}
        self.key: Any = rsa_key()
        self.refused: list[str] = []
        self.refreshed = 0
        self._codes: dict[str, dict[str, str]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.issuer = f"http://localhost:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def settings(self) -> dict[str, str]:
        return {"oidc.issuer": self.issuer, "oidc.client.id": CLIENT, "oidc.client.secret": SECRET}

    def discovered(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
        } | self.discovery

    def authorize(self, query: dict[str, str]) -> str:
        """Where the browser is sent back to."""
        if query.get("client_id") != CLIENT or query.get("code_challenge_method") != "S256":
            raise ValueError("no such client, or no PKCE")
        code = secrets.token_urlsafe(16)
        self._codes[code] = query
        answer = {"code": code, "state": query["state"], "iss": self.issuer}
        return f"{query['redirect_uri']}?{urlencode(answer)}"

    def tokens(self, form: dict[str, str], authorization: str) -> dict[str, Any]:
        """ValueError for what a provider refuses."""
        if authorization != "Basic " + base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode():
            raise ValueError("invalid_client")
        if form["grant_type"] == "refresh_token":
            if form["refresh_token"] != "again":
                raise ValueError("invalid_grant")
            self.refreshed += 1
            return self._granted({})
        asked = self._codes.pop(form["code"], None)
        if asked is None or asked["redirect_uri"] != form["redirect_uri"]:
            raise ValueError("invalid_grant")
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != asked["code_challenge"]:
            raise ValueError("invalid_grant: verifier")
        said = {"aud": CLIENT, "nonce": asked["nonce"]}
        return {**self._granted({}), "id_token": self._signed(said | self.id_token)}

    def _granted(self, more: dict[str, Any]) -> dict[str, Any]:
        token = self._signed({"aud": AUDIENCE, "jti": secrets.token_hex(8), **more})
        return {"access_token": token, "refresh_token": "again", "expires_in": self.lasts_s}

    def _signed(self, more: dict[str, Any]) -> str:
        now = int(time.time())
        said = {"iss": self.issuer, "sub": self.user, "iat": now, "exp": now + 3600, **more}
        return signed({name: each for name, each in said.items() if each is not None}, self.key)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                if parts.path == "/authorize":
                    self.send_response(302)
                    self.send_header("Location", provider.authorize(dict(parse_qsl(parts.query))))
                    self.end_headers()
                elif parts.path == "/keys":
                    self._say(200, json.loads(key_set(rsa_key())))
                else:
                    self._say(200, provider.discovered())

            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
                try:
                    given = {name: each[0] for name, each in form.items()}
                    self._say(200, provider.tokens(given, self.headers.get("authorization", "")))
                except ValueError as error:
                    provider.refused.append(str(error))
                    self._say(400, {"error": str(error)})

            def _say(self, status: int, found: Any) -> None:
                text = json.dumps(found).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                pass

        return Handler
