"""Schemas by their ids: from a registry that speaks the usual REST interface, or from a folder.

    Registry("https://registry.example:8081", user="reader", password="…")
    Registry("schemas")        # schemas/orders-value/7.avsc: subject, id, and the kind as suffix

What an id means never changes, so each process asks for an id once, and every 30 seconds for one that is
not there. Which version is the latest does change: that is asked anew each time, by the driver alone, and
workers are handed the answer. A folder is read when the registry is made, and travels to the workers as it
was then. A registry is picklable for the same reason; its password goes along, and is in no text of an error.
"""

import base64
import json
import logging
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.schemas.errors import PayloadError, RegistryError, UnknownSchemaError

if TYPE_CHECKING:
    import ssl

logger = logging.getLogger(__name__)

KINDS: Final = {"avro": "AVRO", "protobuf": "PROTOBUF", "json": "JSON"}
"""Our words for formats, and the registry's."""

_SUFFIXES: Final = {".avsc": "AVRO", ".proto": "PROTOBUF", ".desc": "PROTOBUF", ".json": "JSON"}
_MEDIA: Final = "application/vnd.schemaregistry.v1+json"
# Schemas have some thousand bytes; this much is no schema.
_ANSWER_BYTES_MAX: Final = 16 << 20
_TIMEOUT_S: Final = 20.0
# A registry that restarts is back within seconds; a query that fails is started again by somebody.
_ATTEMPTS: Final = 5
_PAUSE_S: Final = 0.3
# What a registry does not have is not asked for again at once: a topic may be full of such values.
_UNKNOWN_S: Final = 30.0
_UNKNOWN_MAX: Final = 10_000
_UNKNOWN: Final[dict[tuple[str, int], float]] = {}
_NOT_FOUND: Final = 404
_AGAIN: Final = frozenset((429, 500, 502, 503, 504))
# Of references between schemas, which may be as deep as they like but not endless.
_REFERENCES_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as the registry has it, with all that it refers to, what is needed first coming first."""

    id: int
    kind: str
    text: str
    references: tuple[tuple[str, str], ...] = ()
    """Name, as the schema calls it, and text."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Else a password would follow to wherever the answer points."""

    def redirect_request(self, *_: Any) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Registry:
    """See above. The place is a URL, which may have `user:password@`, or a folder."""

    place: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    folder: "tuple[tuple[str, RegisteredSchema], ...] | None" = field(default=None, repr=False)
    """Subjects and schemas of a folder, by id."""
    bearer: "str | Callable[[], str] | None" = field(default=None, repr=False)
    """A token, in place of user and password; or what gives the one that is good now."""
    authority: str | None = None
    """A PEM file of who signs the registry's certificate; those of the system without it."""
    attempts: int = _ATTEMPTS

    def __post_init__(self) -> None:
        parts = urllib.parse.urlsplit(self.place)
        if parts.scheme not in ("http", "https"):
            if self.folder is None:
                object.__setattr__(self, "folder", _read_folder(Path(self.place)))
            return
        if not parts.hostname:
            raise PayloadError("the registry's address has no host")
        if parts.username is not None:
            name, word = (urllib.parse.unquote(each or "") for each in (parts.username, parts.password))
            bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
            for attribute, value in (("place", bare), ("user", name), ("password", word)):
                object.__setattr__(self, attribute, value)

    def by_id(self, schema_id: int) -> RegisteredSchema:
        """UnknownSchemaError where there is none; RegistryError where nobody can tell."""
        until = _UNKNOWN.get((self.place, schema_id), 0.0)
        if time.monotonic() < until:
            raise UnknownSchemaError(f"{self.place} has no schema {schema_id}")
        try:
            return _by_id(self, schema_id)
        except UnknownSchemaError:
            if len(_UNKNOWN) >= _UNKNOWN_MAX:
                _UNKNOWN.clear()
            _UNKNOWN[self.place, schema_id] = time.monotonic() + _UNKNOWN_S
            raise

    def by_guid(self, guid: str) -> RegisteredSchema:
        """The same by the other name that schemas have, which newer serializers write into headers."""
        if self.folder is not None:
            raise UnknownSchemaError(f"the folder {self.place} names schemas by numbers, and not by {guid}")
        found = self.ask("GET", f"schemas/guids/{_quoted(guid)}")
        return self._whole({**found, "id": found.get("id") or 0})

    def latest(self, subject: str, version: int | None = None) -> RegisteredSchema:
        """A subject's latest version, or the one that is named."""
        if self.folder is not None:
            own = [schema for name, schema in self.folder if name == subject]
            if not own or not 0 < (version or len(own)) <= len(own):
                raise UnknownSchemaError(self._no_subject(subject, version))
            return own[(version or len(own)) - 1]
        path = f"subjects/{_quoted(subject)}/versions/{version or 'latest'}"
        try:
            return self._whole(self.ask("GET", path))
        except UnknownSchemaError:
            raise UnknownSchemaError(self._no_subject(subject, version)) from None

    def register(self, subject: str, kind: str, text: str) -> int:
        """The id of a schema, which is made a version of the subject where it is none; RegistryError with the
        registry's own words where it does not take it."""
        if self.folder is not None:
            raise RegistryError(
                f"the folder {self.place} takes no new schemas by itself: write {subject}/ID and a suffix"
            )
        body = {"schemaType": kind, "schema": text}
        return int(self.ask("POST", f"subjects/{_quoted(subject)}/versions", body)["id"])

    def _no_subject(self, subject: str, version: int | None) -> str:
        wanted = "" if version is None else f" with a version {version}"
        return f"{self.place} has no subject {subject}{wanted}"

    def _whole(self, found: Mapping[str, Any]) -> RegisteredSchema:
        """An answer, with what it refers to."""
        texts: dict[str, str] = {}
        self._refer(found.get("references") or (), texts)
        kind = found.get("schemaType") or "AVRO"
        return RegisteredSchema(int(found["id"]), kind, found["schema"], tuple(texts.items()))

    def _refer(self, references: Iterable[Mapping[str, Any]], texts: dict[str, str]) -> None:
        for each in references:
            if each["name"] in texts:
                continue
            if len(texts) >= _REFERENCES_MAX:
                raise PayloadError(f"a schema refers to more than {_REFERENCES_MAX} others")
            found = self.ask("GET", f"subjects/{_quoted(each['subject'])}/versions/{each['version']}")
            self._refer(found.get("references") or (), texts)
            texts[each["name"]] = found["schema"]

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The answer; asked again where the registry is busy or gone for a moment."""
        url = f"{self.place.rstrip('/')}/{path}"
        for left in reversed(range(self.attempts)):
            try:
                return self._answer(method, url, body)
            except urllib.error.HTTPError as error:
                if error.code == _NOT_FOUND:
                    raise UnknownSchemaError(f"{url} is not found{_said(error)}") from None
                if error.code not in _AGAIN or not left:
                    raise RegistryError(f"{url}: HTTP {error.code}{_said(error)}", error.code) from None
                reason = f"HTTP {error.code}"
            except (OSError, ValueError) as error:
                reason = str(getattr(error, "reason", None) or error)
                if not left:
                    raise RegistryError(f"the registry at {self.place} cannot be asked: {reason}") from None
            logger.warning("%s: %s; asking %d times more", url, reason, left)
            time.sleep(_PAUSE_S * (self.attempts - left))
        raise AssertionError("the last attempt answers or raises")

    def _answer(self, method: str, url: str, body: Mapping[str, Any] | None) -> Any:
        headers = {"Accept": _MEDIA, "Content-Type": _MEDIA}
        if self.bearer is not None:
            headers["Authorization"] = f"Bearer {self.bearer() if callable(self.bearer) else self.bearer}"
        elif self.user is not None:
            words = f"{self.user}:{self.password or ''}".encode()
            headers["Authorization"] = "Basic " + base64.b64encode(words).decode()
        handlers: list[Any] = [_NoRedirects, urllib.request.ProxyHandler()]
        if self.authority is not None:
            handlers.append(urllib.request.HTTPSHandler(context=_trusting(self.authority)))
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data=data, headers=headers, method=method)
        with urllib.request.build_opener(*handlers).open(request, timeout=_TIMEOUT_S) as answer:
            content = answer.read(_ANSWER_BYTES_MAX + 1)
        if len(content) > _ANSWER_BYTES_MAX:
            raise ValueError(f"an answer has more than {_ANSWER_BYTES_MAX} bytes")
        return json.loads(content) if content else None


@lru_cache(maxsize=16)
def _trusting(authority: str) -> "ssl.SSLContext":
    import ssl

    return ssl.create_default_context(cafile=authority)


@lru_cache(maxsize=10_000)
def _by_id(registry: Registry, schema_id: int) -> RegisteredSchema:
    if registry.folder is not None:
        for _, schema in registry.folder:
            if schema.id == schema_id:
                return schema
        raise UnknownSchemaError(f"the folder {registry.place} has no schema {schema_id}")
    try:
        found = registry.ask("GET", f"schemas/ids/{schema_id}")
    except UnknownSchemaError:
        raise UnknownSchemaError(f"{registry.place} has no schema {schema_id}") from None
    return registry._whole({**found, "id": schema_id})


def _read_folder(folder: Path) -> tuple[tuple[str, RegisteredSchema], ...]:
    if not folder.is_dir():
        raise PayloadError(f"the registry {folder} is no http or https address, nor a folder")
    found: dict[int, tuple[str, RegisteredSchema]] = {}
    for path in sorted(folder.glob("*/*")):
        kind = _SUFFIXES.get(path.suffix)
        if kind is None or not path.stem.isdecimal():
            continue
        number = int(path.stem)
        if number in found:
            raise PayloadError(f"{path}: the subject {found[number][0]} has a schema {number} too")
        text = (
            base64.b64encode(path.read_bytes()).decode()
            if path.suffix == ".desc"
            else path.read_text(encoding="utf-8")
        )
        found[number] = (path.parent.name, RegisteredSchema(number, kind, text))
    if not found:
        raise PayloadError(f"the folder {folder} has no schemas: they are SUBJECT/ID.avsc, .proto or .json")
    return tuple(found[number] for number in sorted(found))


def _quoted(name: str) -> str:
    return urllib.parse.quote(name, safe="")


def _said(error: urllib.error.HTTPError) -> str:
    """What the registry's own error says, if anything."""
    try:
        found = json.loads(error.read(_ANSWER_BYTES_MAX))
        return f": {found['message']}"
    except (OSError, ValueError, KeyError, TypeError):
        return ""
