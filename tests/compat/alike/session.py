"""A conversation with one broker: requests out, and what came back written down under a label."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from headrace.wire.apis import API_BY_NAME
from tests.compat.alike.plain import Names, fit
from tests.server.beside_kafka.compare import SimulatedNode
from tests.server.beside_kafka.talk import Broker
from tests.server.node_world import API_OF, Client

SILENT_MS = 4_000
"""After which a request counts as never answered."""
PAUSE_MS = 20
UNKNOWN_ID = b"\1" * 16
"""The id of no topic."""


class Answer(NamedTuple):
    """What was asked, and the reply as a plain tree, or "closed" or "silent"."""

    label: str
    content: Any


# The last versions of Apache Kafka 4.3, where headrace has those of 4.4, too.
BEFORE_44 = {"ApiVersions": 4, "DeleteGroups": 2, "TxnOffsetCommit": 5}


def _newest(kind: str) -> int:
    return BEFORE_44.get(kind, API_BY_NAME[kind].advertised_max)


def versions(kind: str) -> range:
    """The versions of a request kind that Kafka tells clients of."""
    return range(API_BY_NAME[kind].min_version, _newest(kind) + 1)


class Session:
    """One script's requests to one broker."""

    def __init__(self, broker: Broker) -> None:
        self.answers: list[Answer] = []
        self.names = Names(broker.prefix)
        self.know(UNKNOWN_ID, "unknown id")
        self._broker = broker
        self._clients: dict[str, Client] = {}
        self._begun: list[asyncio.Future[Any]] = []

    # --- names, topics and time ---

    def name(self, name: str) -> str:
        """The real name of a topic, group or transactional id of this conversation."""
        return self._broker.prefix + name

    @property
    def is_simulated(self) -> bool:
        """Whether it is headrace in virtual time that is asked."""
        return isinstance(self._broker, SimulatedNode)

    def host_of(self, client: str) -> str:
        """The address from which a client connects."""
        return self._broker.host_of(client)

    def know(self, value: Any, name: str) -> None:
        """Show a value that the server chose by this name."""
        self.names.know(value, name)

    async def topic(self, name: str, partitions: int = 1, **configs: str) -> bytes:
        """Make a topic; settings with _ for dots. Returns its id."""
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        topic_id = await self._broker.create_topic(self.name(name), partitions, settings)
        self.know(topic_id, f"id of {name}")
        return topic_id

    async def delete_topic(self, name: str) -> None:
        await self._broker.delete_topic(self.name(name))

    async def pass_time(self, milliseconds: int) -> None:
        await self._broker.pass_time(milliseconds)

    # --- requests ---

    async def ask(self, label: str, message: Any, version: int | None = None, *, client: str = "c") -> Any:
        """Send a request and write down its reply. None where there was none."""
        version = self._version(message, version)
        asked = await self.begin(message, version, client=client)
        return await self.hear(f"{label}, {_kind(message)} v{version}", asked, version)

    async def every(
        self, label: str, make: Callable[[int], Any], only: Iterable[int] | None = None, **options: Any
    ) -> None:
        """Ask in every version of the request kind, or only in some."""
        if only is None:
            only = versions(API_OF[type(make(99))].name)
        for version in only:
            await self.ask(label, make(version), version, **options)

    async def get(self, message: Any, version: int | None = None, *, client: str = "c") -> Any:
        """A reply that is needed and not compared."""
        return await (await self.begin(message, self._version(message, version), client=client))

    async def until(
        self, message: Any, is_so: Callable[[Any], bool], *, tries: int = 400, client: str = "c"
    ) -> Any:
        """Ask again and again for what comes by itself; nothing of it is compared."""
        for _ in range(tries):
            reply = await self.get(message, client=client)
            if is_so(reply):
                return reply
            await self.pass_time(PAUSE_MS)
        raise AssertionError(f"it never came true: {message} was answered {reply}")

    async def begin(
        self, message: Any, version: int, *, client: str = "c", wait_ms: int = SILENT_MS
    ) -> "asyncio.Future[Any]":
        """Send a request without waiting for its reply. What its version does not have is left out."""
        connected = self._clients.get(client)
        if connected is None or not connected.is_open:
            client_id = client.partition("#")[0]  # what is behind it tells connections of one client apart
            connected = self._clients[client] = await self._broker.connect(client_id)
        asked = connected.ask(fit(message, version), version, timeout_ms=wait_ms)
        self._begun.append(asked)
        return asked

    async def hear(self, label: str, asked: "asyncio.Future[Any]", version: int) -> Any:
        """Wait for a reply that was begun, and write it down."""
        try:
            reply = await asked
        except ConnectionError as error:
            self.write(label, "silent" if "no reply in time" in str(error) else "closed")
            return None
        self.write(label, self.names.plain(reply, version))
        return reply

    def write(self, label: str, content: Any) -> None:
        self.answers.append(Answer(label, content))

    def close(self) -> None:
        """Hang up; nobody waits any more for what is not answered yet."""
        for asked in self._begun:
            asked.add_done_callback(lambda done: done.cancelled() or done.exception())
        for client in self._clients.values():
            client.close()

    def _version(self, message: Any, version: int | None) -> int:
        return _newest(API_OF[type(message)].name) if version is None else version


def _kind(message: Any) -> str:
    return type(message).__name__.removesuffix("Request")
