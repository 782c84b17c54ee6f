"""A schema registry in memory that speaks the usual REST interface, as far as clients of tests use it.

It numbers schemas, has subjects with versions, and can ask for a password, be busy, or be gone. It checks no
compatibility but what a test says is not compatible. Schemas have GUIDs too, as in
newer registries.
"""

import base64
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit
from uuid import UUID

from headrace.schemas.registry import Registry


class RefusedError(Exception):
    """An answer that is none."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class SchemaRegistry:
    """Serves while it is entered; `asked` are the paths that were asked for."""

    def __init__(self, user_info: str | None = None) -> None:
        self.user_info = user_info
        self.asked: list[str] = []
        self.authorizations: list[str | None] = []
        self.busy = 0
        """So many requests are answered with 503."""
        self.answers_left: int | None = None
        """After so many answers it is busy for good."""
        self.incompatible: set[str] = set()
        """Subjects that take nothing new."""
        self.levels: dict[str, str] = {"": "BACKWARD"}
        """Compatibility levels by subject; the registry's own has no name."""
        self._schemas: list[dict[str, Any]] = []
        self._subjects: dict[str, list[int]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def registry(self) -> Registry:
        """Our side."""
        return Registry(self.url)

    def add(self, subject: str, text: str, kind: str = "AVRO", references: list[Any] | None = None) -> int:
        """The id; a schema that is there already has the one that it has."""
        body = {"schema": text, "schemaType": kind, "references": references or []}
        if body not in self._schemas:
            self._schemas.append(body)
        number = self._schemas.index(body) + 1
        versions = self._subjects.setdefault(subject, [])
        if number not in versions:
            if subject in self.incompatible:
                raise RefusedError(409, 409, "Schema being registered is incompatible with an earlier schema")
            versions.append(number)
        return number

    def answer(self, method: str, path: list[str], body: Any) -> Any:
        match (method, path):
            case ("GET", ["schemas", "ids", number]):
                return self._schema(int(number))
            case ("GET", ["schemas", "guids", guid]):
                return {**self._schema(UUID(guid).int), "guid": guid}
            case ("GET", ["schemas", "ids", number, "versions"]):
                return [
                    {"subject": name, "version": ids.index(int(number)) + 1}
                    for name, ids in self._subjects.items()
                    if int(number) in ids
                ]
            case ("GET", ["subjects", subject, "versions"]):
                self._version(subject, "latest")
                return [at + 1 for at, own in enumerate(self._subjects[subject]) if own]
            case ("DELETE", ["subjects", subject]):
                return [at + 1 for at in range(len(self._subjects.pop(subject)))]
            case ("DELETE", ["subjects", subject, "versions", version]):
                self._version(subject, version)
                self._subjects[subject][int(version) - 1] = 0
                return int(version)
            case (_, ["config", *subject]):
                return self._config(method, subject[0] if subject else "", body)
            case ("POST", ["compatibility", "subjects", subject, "versions", "latest"]):
                self._version(subject, "latest")
                bad = subject in self.incompatible
                return {"is_compatible": not bad, "messages": ["READER_FIELD_MISSING: id"] if bad else []}
            case ("GET", ["subjects"]):
                return sorted(self._subjects)
            case ("POST", ["subjects", subject, "versions"]):
                kind = body.get("schemaType") or "AVRO"
                number = self.add(subject, body["schema"], kind, body.get("references"))
                return {"id": number, "guid": str(UUID(int=number))}
            case ("GET", ["subjects", subject, "versions", version]):
                return self._version(subject, version)
            case ("POST", ["subjects", subject]):
                found = self._version(subject, "latest")
                if found["schema"] != body["schema"]:
                    raise RefusedError(404, 40403, "Schema not found")
                return found
        raise RefusedError(404, 404, "HTTP 404 Not Found")

    def _schema(self, number: int) -> dict[str, Any]:
        if not 0 < number <= len(self._schemas):
            raise RefusedError(404, 40403, "Schema not found")
        return {name: each for name, each in self._schemas[number - 1].items() if each != "AVRO"}

    def _version(self, subject: str, version: str) -> dict[str, Any]:
        versions = self._subjects.get(subject) or []
        number = len(versions) if version in ("latest", "-1") else int(version)
        if not 0 < number <= len(versions) or not versions[number - 1]:
            raise RefusedError(404, 40401, f"Subject '{subject}' not found.")
        own = versions[number - 1]
        return {"subject": subject, "version": number, "id": own, **self._schema(own)}

    def _config(self, method: str, subject: str, body: Any) -> Any:
        if method == "PUT":
            self.levels[subject] = body["compatibility"]
            return {"compatibility": body["compatibility"]}
        if subject not in self.levels:
            raise RefusedError(404, 40408, f"Subject '{subject}' does not have subject-level configuration")
        if method == "DELETE":
            return {"compatibility": self.levels.pop(subject)}
        return {"compatibilityLevel": self.levels[subject]}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._serve("GET")

            def do_POST(self) -> None:
                self._serve("POST")

            def do_PUT(self) -> None:
                self._serve("PUT")

            def do_DELETE(self) -> None:
                self._serve("DELETE")

            def _serve(self, method: str) -> None:
                content = self.rfile.read(int(self.headers.get("content-length") or 0))
                path = urlsplit(self.path).path
                registry.asked.append(path)
                registry.authorizations.append(self.headers.get("authorization"))
                status, found = registry.respond(
                    lambda: registry.answer(
                        method,
                        [unquote(each) for each in path.strip("/").split("/")],
                        json.loads(content or b"null"),
                    ),
                    self.headers.get("authorization"),
                )
                text = json.dumps(found).encode()
                self.send_response(status)
                self.send_header("content-type", "application/vnd.schemaregistry.v1+json")
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def respond(self, answer: Callable[[], Any], authorization: str | None) -> tuple[int, Any]:
        if self.user_info is not None:
            wanted = "Basic " + base64.b64encode(self.user_info.encode()).decode()
            if authorization != wanted:
                return 401, {"error_code": 401, "message": "Unauthorized"}
        if self.answers_left is not None:
            self.busy += self.answers_left == 0
            self.answers_left = max(0, self.answers_left - 1)
        if self.busy:
            self.busy -= 1
            return 503, {"error_code": 503, "message": "busy"}
        try:
            return 200, answer()
        except RefusedError as error:
            return error.status, {"error_code": error.code, "message": str(error)}
