"""A conversation with a broker, written down so that two brokers' answers can be compared line by line.

Of a reply every field is shown that is not at its schema's default. What no two brokers share is given a
name instead: topic ids, member ids, fetch sessions, addresses, folders, times of now. Error messages are the
broker's own words, and not shown. Records are shown as their batches.
"""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from headrace.base.error_codes import ErrorCode
from headrace.records.batch import Record, batches, build_batch
from headrace.wire.apis import API
from tests.server.node_world import API_OF, Client

RECORD_MS = 1_700_000_000_000
"""The timestamp of the first record of a script's batches: the same on every day."""


STRANGERS = {"nobody": "127.0.0.2", "onlooker": "127.0.0.3"}
"""Clients that come from addresses of their own."""


class Broker(Protocol):
    """Where a conversation takes place. `prefix` keeps the names of one recording apart from another's."""

    prefix: str

    async def connect(self, client_id: str) -> Client: ...

    def host_of(self, client_id: str) -> str: ...

    async def create_topic(self, name: str, partitions: int, configs: Mapping[str, str]) -> bytes: ...

    async def delete_topic(self, name: str) -> None: ...

    async def pass_time(self, milliseconds: int) -> None: ...


class Talk:
    """One script's requests and what came back."""

    def __init__(self, broker: Broker) -> None:
        self.lines: list[str] = []
        self._broker = broker
        self._clients: dict[str, Client] = {}
        self._begun: list[asyncio.Future[Any]] = []
        self._names: dict[Any, str] = {}
        self._kinds: dict[str, int] = {}
        self._producers: dict[int, str] = {}

    # --- what scripts use ---

    def name(self, name: str) -> str:
        """The real name of a topic or group of this conversation."""
        return self._broker.prefix + name

    def title(self, text: str) -> None:
        self.lines += ["", f"## {text}"]

    async def topic(self, name: str, partitions: int = 1, **configs: str) -> bytes:
        """Make a topic; settings with _ for dots. Returns its id."""
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        topic_id = await self._broker.create_topic(self.name(name), partitions, settings)
        self.know(topic_id, f"<id of {name}>")
        return topic_id

    async def delete_topic(self, name: str) -> None:
        await self._broker.delete_topic(self.name(name))

    async def pass_time(self, milliseconds: int) -> None:
        await self._broker.pass_time(milliseconds)

    def know(self, value: Any, name: str) -> None:
        """Show this value by a name."""
        self._names[value] = name

    def know_producer(self, producer_id: int, name: str) -> None:
        """Show this producer id by a name."""
        self._producers[producer_id] = name

    async def ask(
        self, label: str, message: Any, version: int, *, client: str = "c", unordered: bool = False
    ) -> Any:
        """Send a request and write down its reply, or that the connection was closed."""
        return await self.hear(label, await self.begin(message, version, client=client), unordered=unordered)

    async def ask_timed(self, label: str, message: Any, version: int, *, wait_ms: int, **options: Any) -> Any:
        """Also write down whether the reply took the `wait_ms` that it could take, or came at once."""
        asked = await self.begin(message, version)
        begun = asyncio.get_running_loop().time()
        shown = await self._outcome(asked, **options)
        took_ms = (asyncio.get_running_loop().time() - begun) * 1000
        self.lines.append(f"{label}: {'after waiting' if took_ms >= wait_ms / 2 else 'at once'} {shown}")
        return None if asked.exception() is not None else asked.result()

    async def each_version(self, label: str, make: Callable[[int], Any], **options: Any) -> None:
        """Ask in every version from the oldest to the newest; equal answers are shown once."""
        key = API_OF[type(make(99))].key
        shown, since = "", 0
        for version in range(API[key].min_version, API[key].max_version + 1):
            reply = await self._outcome(await self.begin(make(version), version), **options)
            if shown and reply != shown:
                self.lines.append(f"{label}, v{since}-v{version - 1}: {shown}")
            if reply != shown:
                shown, since = reply, version
        self.lines.append(f"{label}, v{since} on: {shown}")

    async def begin(self, message: Any, version: int, *, client: str = "c") -> "asyncio.Future[Any]":
        """Send a request without waiting for its reply."""
        connected = self._clients.get(client)
        if connected is None or not connected.is_open:
            connected = self._clients[client] = await self._broker.connect(client)
        asked = connected.ask(message, version)
        self._begun.append(asked)
        return asked

    async def hear(self, label: str, asked: "asyncio.Future[Any]", *, unordered: bool = False) -> Any:
        """Wait for a reply that was begun, and write it down."""
        self.lines.append(f"{label}: {await self._outcome(asked, unordered=unordered)}")
        return None if asked.exception() is not None else asked.result()

    def is_waiting(self, label: str, asked: "asyncio.Future[Any]") -> None:
        self.lines.append(f"{label}: {'answered' if asked.done() else 'waiting'}")

    def text(self) -> str:
        return "\n".join(self.lines).strip() + "\n"

    def close(self) -> None:
        """Hang up; nobody waits any more for what is not answered yet."""
        for asked in self._begun:
            asked.add_done_callback(lambda done: done.cancelled() or done.exception())
        for client in self._clients.values():
            client.close()

    # --- showing ---

    async def _outcome(self, asked: "asyncio.Future[Any]", *, unordered: bool = False) -> str:
        try:
            reply = await asked
        except ConnectionError as error:
            return "silent" if "no reply in time" in str(error) else "closed"
        return self._show(reply, unordered)

    def _show(self, value: Any, unordered: bool) -> str:
        if dataclasses.is_dataclass(value):
            shown = [self._field(value, field, unordered) for field in dataclasses.fields(value)]
            return f"({', '.join(filter(None, shown))})"
        if isinstance(value, list):
            items = [self._show(each, unordered) for each in value]
            return f"[{', '.join(sorted(items) if unordered else items)}]"
        known = self._names.get(value) if isinstance(value, bytes | str | int) and value else None
        if known is not None:
            return known
        if isinstance(value, str) and self._broker.prefix:
            value = value.replace(self._broker.prefix, "")
        return repr(value)

    def _field(self, owner: Any, field: "dataclasses.Field[Any]", unordered: bool) -> str:
        value = getattr(owner, field.name)
        default = field.default_factory() if callable(field.default_factory) else field.default
        if value == default and field.name != "records":
            return ""
        if field.name in _MESSAGES and _failed(owner):
            return ""
        special = _SPECIAL.get(field.name)
        return f"{field.name}={special(self, value) if special else self._show(value, unordered)}"

    def _number(self, kind: str, value: Any) -> str:
        """The name of a value of this kind: numbered in order of appearance."""
        if value not in self._names:
            self._kinds[kind] = self._kinds.get(kind, 0) + 1
            self._names[value] = f"<{kind} {self._kinds[kind]}>"
        return self._names[value]

    def _show_member(self, value: str | None) -> str:
        if not value or value.startswith("("):
            return repr(value)
        return self._names.get(value) or self._number("member", value)

    def _show_error(self, value: int) -> str:
        return ErrorCode(value).name


def _show_records(talk: Talk, value: Any) -> str:
    if value is None or not len(value):
        return repr(value if value is None else b"")
    data = bytes(value)
    shown, end = [], 0
    for at, header in batches(data):
        shown.append(f"{header.base_offset}-{header.last_offset}@{header.leader_epoch}")
        end = at + header.size
    cut = f" and {len(data) - end} bytes" if end < len(data) else ""
    return f"<{' '.join(shown)}{cut}>"


def _sign(talk: Talk, value: int) -> str:
    return "<some>" if value > 0 else str(value)


_MESSAGES = ("error_message",)


def _failed(owner: Any) -> bool:
    return bool(getattr(owner, "error_code", 0))


_SPECIAL: dict[str, Callable[[Talk, Any], str]] = {
    "error_code": Talk._show_error,
    "batch_index_error_message": lambda talk, value: "<words>",
    "records": _show_records,
    "member_id": Talk._show_member,
    "leader": Talk._show_member,
    "producer_id": lambda talk, value: talk._producers.get(value) or repr(value),
    "session_id": lambda talk, value: talk._number("session", value),
    "host": lambda talk, value: repr(value) if not value else "<host>",
    "client_host": lambda talk, value: repr(value) if not value else "<host>",
    "port": _sign,
    "log_append_time_ms": _sign,
    "transaction_start_time_ms": _sign,
    "last_timestamp": lambda talk, value: repr(value) if value < RECORD_MS + 1000 else "<now>",
    "partition_error_code": Talk._show_error,
    "member_metadata": lambda talk, value: "<some>" if value else "b''",
    "log_dir": lambda talk, value: "<folder>",
    "total_bytes": _sign,
    "usable_bytes": _sign,
}


def batch(
    count: int = 1, *, size: int = 10, at_ms: int = RECORD_MS, step_ms: int = 1, **options: Any
) -> bytearray:
    """A batch of records of the same size, a millisecond apart."""
    records = [Record(0, at_ms + step_ms * number, None, b"v" * size, ()) for number in range(count)]
    return build_batch(records, **options)


Script = Callable[[Talk], Awaitable[None]]
