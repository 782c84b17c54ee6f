"""A REST catalogue of Iceberg for tests: the calls of its specification that a load makes, over a SQL one.

Requests and answers are read and written by pyiceberg's own models, and the client's half is the real one.
"""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from pyiceberg.catalog.rest import CreateTableRequest, TableResponse
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import CommitTableRequest, CommitTableResponse, StagedTable
from pyiceberg.table.metadata import new_table_metadata

_STATUS: Mapping[type[Exception], int] = {
    NoSuchTableError: 404,
    NoSuchNamespaceError: 404,
    TableAlreadyExistsError: 409,
    NamespaceAlreadyExistsError: 409,
    CommitFailedException: 409,
}


@contextmanager
def rest_catalog(properties: Mapping[str, str]) -> Iterator[str]:
    """Gives its address; `properties` are those of the SQL catalogue."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.catalog = _Catalog(SqlCatalog("server", **properties))  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Catalog:
    """What each call does."""

    def __init__(self, catalog: SqlCatalog) -> None:
        self._catalog = catalog
        self._lock = threading.Lock()

    def answer(self, method: str, path: list[str], body: bytes) -> Any:
        """What is to be sent as JSON. KeyError for a call that there is not."""
        with self._lock:
            match method, path:
                case "GET", ["config"]:
                    return {"defaults": {}, "overrides": {}}
                case "POST", ["namespaces"]:
                    given = json.loads(body)
                    self._catalog.create_namespace(tuple(given["namespace"]))
                    return {"namespace": given["namespace"], "properties": {}}
                case (("GET" | "HEAD"), ["namespaces", namespace]):
                    self._catalog.load_namespace_properties(namespace)
                    return {"namespace": [namespace], "properties": {}}
                case "POST", ["namespaces", namespace, "tables"]:
                    return self._created(namespace, _create_request(body))
                case "GET", ["namespaces", namespace, "tables", name]:
                    return _told(self._catalog.load_table((namespace, name)))
                case "POST", ["namespaces", namespace, "tables", name]:
                    return self._committed((namespace, name), CommitTableRequest.model_validate_json(body))
        raise KeyError(f"{method} {path}")

    def _created(self, namespace: str, wanted: CreateTableRequest) -> Any:
        identifier = (namespace, wanted.name)
        place = self._catalog._resolve_table_location(wanted.location, namespace, wanted.name)
        if not wanted.stage_create:
            return _told(self._catalog.create_table(identifier, wanted.table_schema, place))
        metadata = new_table_metadata(
            schema=wanted.table_schema,
            partition_spec=wanted.partition_spec,
            sort_order=wanted.write_order,
            location=place,
            properties=wanted.properties,
        )
        return {"metadata": metadata.model_dump(mode="json", by_alias=True), "config": {}}

    def _committed(self, identifier: tuple[str, str], wanted: CommitTableRequest) -> Any:
        try:
            table: Any = self._catalog.load_table(identifier)
        except NoSuchTableError:
            table = StagedTable(identifier, None, "", self._catalog._load_file_io(), self._catalog)
        found: CommitTableResponse = self._catalog.commit_table(table, wanted.requirements, wanted.updates)
        return found.model_dump(mode="json", by_alias=True)


def _create_request(body: bytes) -> CreateTableRequest:
    """What a client leaves out is null."""
    nothing = dict.fromkeys(("location", "partition-spec", "write-order"))
    return CreateTableRequest.model_validate({**nothing, **json.loads(body)})


def _told(table: Any) -> Any:
    given = TableResponse(metadata_location=table.metadata_location, metadata=table.metadata, config={})
    return given.model_dump(mode="json", by_alias=True)


class _Handler(BaseHTTPRequestHandler):
    """One call."""

    protocol_version = "HTTP/1.1"

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = urlsplit(self.path).path.strip("/").split("/")
        try:
            status, found = 200, self.server.catalog.answer(self.command, path[1:], body)  # type: ignore[attr-defined]
        except tuple(_STATUS) as error:
            status = _STATUS[type(error)]
            found = {"error": {"message": str(error), "type": type(error).__name__, "code": status}}
        text = b"" if self.command == "HEAD" else json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_HEAD = do_DELETE = _serve  # noqa: N815

    def log_message(self, *_: Any) -> None:
        pass
