"""Replies as plain trees in which two brokers can be compared.

Of a message every field stays that its version has and that is not at its schema's default. What a server
chooses gets a name: ids in order of appearance, addresses, folders, the time of now. Of errors the words are
compared, because tools and clients show them. Records are shown as their batches.
"""

import base64
import dataclasses
import re
import typing
from collections.abc import Callable
from functools import cache
from typing import Any

from headrace.base.error_codes import ErrorCode
from headrace.records.batch import batches
from headrace.wire.notation import Since, Until
from tests.server.beside_kafka.talk import RECORD_MS

NEVER = 1 << 15
LONG = 200
RECORDS_MS = 1_000
"""Times of records lie this close together; what is later is a time of now, also in a simulated world."""
# Ids that a broker made: a client's or an instance's name and a UUID, in digits or in base 64, or it alone.
MADE_MEMBER = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$|(^|-)[A-Za-z0-9_-]{22}$")

# The same, and ids of topics, in a sentence.
MADE_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<![\w-])[A-Za-z0-9_-]{22}(?![\w-])")


@cache
def versions_of(cls: type[Any]) -> dict[str, tuple[int, int]]:
    """The first and last version that has each field of a message or struct."""
    found = {}
    for name, hint in typing.get_type_hints(cls, include_extras=True).items():
        marks = getattr(hint, "__metadata__", ())
        since = next((mark.version for mark in marks if isinstance(mark, Since)), 0)
        until = next((mark.version for mark in marks if isinstance(mark, Until)), NEVER)
        found[name] = since, until
    return found


def _base64(value: bytes) -> str:
    """An id as Kafka writes it."""
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _default(field: "dataclasses.Field[Any]") -> Any:
    return field.default_factory() if callable(field.default_factory) else field.default


def fit(value: Any, version: int) -> Any:
    """A copy of a request without what its version does not have."""
    if isinstance(value, list):
        return [fit(each, version) for each in value]
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    ranges = versions_of(type(value))
    kept = {
        field.name: fit(getattr(value, field.name), version)
        for field in dataclasses.fields(value)
        if ranges[field.name][0] <= version <= ranges[field.name][1]
    }
    return type(value)(**kept)


# Lists whose order is that of a hash table, and whose items have no names to go by.
UNORDERED = ("acls", "matching_acls")

# What Kafka says of a request that it refuses: an object with addresses of memory and ports.
JAVA_OBJECT = re.compile(r"Request\(processor=.*")


# Settings that Kafka 4.3 does not know: Kafka 4.4's and our own.
NEWER_SETTINGS = re.compile(r"errors\.deadletterqueue\.|headrace\.|(log\.)?remote\.copy\.lag\.")


def _is_newer_setting(item: Any) -> bool:
    if not hasattr(item, "config_source"):
        return False
    return NEWER_SETTINGS.match(item.name) is not None


class Names:
    """What stands for the values that a server chose."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._by_value: dict[Any, str] = {}
        self._counts: dict[str, int] = {}

    def know(self, value: Any, name: str) -> None:
        self._by_value[value] = f"<{name}>"

    def number(self, kind: str, value: Any) -> str:
        """The name of a value, numbered in order of appearance where it has none."""
        known = self._by_value.get((kind, value)) or self._by_value.get(value)
        if known is None:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            known = self._by_value[kind, value] = f"<{kind} {self._counts[kind]}>"
        return known

    def in_text(self, text: str) -> str:
        """A sentence with the names of what it mentions."""
        for known, name in self._by_value.items():
            value = known[1] if isinstance(known, tuple) else known
            shown = _base64(value) if isinstance(value, bytes) else value
            if isinstance(shown, str) and shown:
                text = text.replace(shown, name)
        return MADE_ID.sub("<id>", JAVA_OBJECT.sub("<Java object>", text.replace(self._prefix, "")))

    def plain(self, value: Any, version: int) -> Any:
        if dataclasses.is_dataclass(value):
            return self._message(value, version)
        if isinstance(value, list):
            return [self.plain(each, version) for each in value if not _is_newer_setting(each)]
        if isinstance(value, str):
            known = self._by_value.get(value)
            own = value.replace(self._prefix, "")
            return known or (own if len(own) <= LONG else f"{own[:8]}… ({len(own)})")
        if isinstance(value, bytes | bytearray | memoryview):
            known = self._by_value.get(bytes(value)) if len(value) else None
            return known or bytes(value).hex()
        return value

    def _message(self, value: Any, version: int) -> dict[str, Any]:
        ranges = versions_of(type(value))
        shown: dict[str, Any] = {}
        for field in dataclasses.fields(value):
            since, until = ranges[field.name]
            content = getattr(value, field.name)
            if not since <= version <= until or field.name == "throttle_time_ms":
                continue
            special = _SPECIAL.get(f"{type(value).__name__}.{field.name}") or _SPECIAL.get(field.name)
            if special is not None:
                told = special(self, content)
            else:
                told = self.plain(content, version)
                if content == _default(field) or told == _default(field):
                    continue
            if field.name in UNORDERED:
                told = sorted(told, key=str)
            if told is not _NOTHING:
                shown[field.name] = told
        return shown


_NOTHING = object()


def _words(names: Names, value: str | None) -> Any:
    return "<words>" if value else None


def _text(names: Names, value: str | None) -> Any:
    """The words of an error, without what is each broker's own."""
    return value and names.in_text(value)


def _error(names: Names, value: int) -> Any:
    return ErrorCode(value).name if value else _NOTHING


def _numbered(kind: str) -> Callable[[Names, Any], Any]:
    """Ids: zero, negative and empty ones are everybody's."""

    def show(names: Names, value: Any) -> Any:
        if isinstance(value, int):
            return names.number(kind, value) if value > 0 else value
        return names.number(kind, bytes(value)) if value.strip(b"\0") else _NOTHING

    return show


def _producer(names: Names, value: int) -> Any:
    return names.number("producer", value) if value >= 0 else value


def _member(names: Names, value: Any) -> Any:
    if isinstance(value, str) and MADE_MEMBER.search(value):
        return names.number("member", value)
    return names.plain(value, 0)


def _own(names: Names, value: Any) -> Any:
    """A value that each broker has for itself: only whether it is there counts."""
    if isinstance(value, int):
        return "<own>" if value > 0 else value
    return "<own>" if value else value


def _moment(names: Names, value: int) -> Any:
    return "<now>" if value > RECORD_MS + RECORDS_MS else value


def _records(names: Names, value: Any) -> Any:
    if value is None or not len(value):
        return _NOTHING if value is None else "none"
    data, shown, end = bytes(value), [], 0
    for at, header in batches(data):
        shown.append(f"{header.base_offset}-{header.last_offset}@{header.leader_epoch}")
        end = at + header.size
    cut = f" and {len(data) - end} bytes" if end < len(data) else ""
    return " ".join(shown) + cut


_SPECIAL: dict[str, Callable[[Names, Any], Any]] = {
    "error_code": _error,
    "partition_error_code": _error,
    "error_message": _text,
    "batch_index_error_message": _text,
    "documentation": _words,
    "records": _records,
    "member_id": _member,
    "leader": _member,
    "topic_id": _numbered("topic"),
    "producer_id": _producer,
    "session_id": _numbered("session"),
    "host": _own,
    "client_host": _own,
    "port": _own,
    "cluster_id": _own,
    "log_dir": _own,
    "total_bytes": _own,
    "usable_bytes": _own,
    "heartbeat_interval_ms": _own,
    "finalized_features_epoch": _own,
    "log_append_time_ms": _moment,
    "transaction_start_time_ms": _moment,
    "last_timestamp": _moment,
    "timestamp": _moment,
    "replica_directory_id": _numbered("directory"),
    "Listener.port": lambda names, value: "<own>",  # 0 of a node that was started on any free port
    "ResponsePartitionData.leader_epoch": _own,
    "ResponsePartitionData.high_watermark": _own,
    "ReplicaState.log_end_offset": _own,
    "ReplicaState.last_fetch_timestamp": _moment,
    "ReplicaState.last_caught_up_timestamp": _moment,
}
