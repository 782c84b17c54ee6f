"""What a handler knows of the request besides its body: who asks, over which connection, in which version."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from headrace.transport.channel_builder import ANONYMOUS as ANONYMOUS

if TYPE_CHECKING:
    from asyncio import Future

    from headrace.base.chunks import Chunk
    from headrace.controller.drivers.controller import Controller
    from headrace.server.api_table import ApiTable
    from headrace.server.parts import Parts
    from headrace.transport.connection import Connection
    from headrace.wire.framing import RequestHeader


class NoReply:
    """The type of `NO_REPLY`: what a handler gives where the client expects nothing."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NO_REPLY"


NO_REPLY: Final = NoReply()


class PreparedReply:
    """A response that is written already: what a handler gives where many ask the same."""

    __slots__ = ("body", "leaders", "throttle_time_ms")

    def __init__(
        self, body: list[Chunk], leaders: frozenset[int] = frozenset(), *, throttle_time_ms: int = 0
    ) -> None:
        self.body = body
        self.throttle_time_ms = throttle_time_ms  # as it is written in the body
        self.leaders = leaders  # the brokers it tells clients to turn to


class SaslExchange(Protocol):
    """A connection's login, under way or through (`sasl_server_authenticator.py`)."""

    is_token: bool
    """Whether it was by a delegation token."""

    @property
    def takes_raw_token(self) -> bool:
        """Whether the next frame is a mechanism's token, without a request around it."""
        ...

    def take_raw_token(self, token: bytes) -> None: ...

    def admit(self, api_key: int) -> None:
        """InvalidBytesError where who is not logged in may not ask this now."""
        ...

    def handshake(self, mechanism: str, *, is_raw: bool) -> Any:
        """The response to SaslHandshake, or a future of it."""
        ...

    def authenticate(self, token: bytes) -> Any:
        """The response to SaslAuthenticate, or a future of it."""
        ...

    def close(self) -> None:
        """The connection is closed."""
        ...


class Peer:
    """The other end of a connection, for as long as that lasts."""

    __slots__ = (
        "authenticated",
        "close_listeners",
        "connection",
        "host",
        "is_forwarded",
        "last_request",
        "listener",
        "long_polls",
        "opened_at",
        "port",
        "principal",
        "sasl",
        "software_name",
        "software_version",
        "table",
    )

    def __init__(
        self,
        connection: Connection,
        *,
        listener: str,
        table: ApiTable,
        authenticated: bool = True,
        sasl: SaslExchange | None = None,
        opened_at: float = 0.0,
    ) -> None:
        self.connection = connection
        self.close_listeners: dict[object, Callable[[], None]] = {}  # by who wants to know
        self.is_forwarded = False  # asked a broker, which looked at the request first
        self.opened_at = opened_at  # by the loop's time
        self.last_request: RequestHeader | None = None  # None also for Produce requests that the lane took
        self.table = table  # what this listener serves
        self.host, self.port = connection.peer
        self.listener = listener
        self.authenticated = authenticated
        self.sasl = sasl
        self.principal = ANONYMOUS
        self.long_polls: list[tuple[Future[Any], Callable[[], object]]] = []  # fetches that wait
        self.software_name = ""  # from ApiVersions v3 on (KIP-511)
        self.software_version = ""

    def add_long_poll(self, waiting: Future[Any], release: Callable[[], object]) -> None:
        """A fetch waits for records; `release` answers it with what there is."""
        if self.long_polls:
            self.long_polls = [each for each in self.long_polls if not each[0].done()]
        self.long_polls.append((waiting, release))

    def release_long_polls(self) -> None:
        """What was asked now is urgent, and replies leave in order: no fetch before it shall wait."""
        long_polls, self.long_polls = self.long_polls, []
        for waiting, release in long_polls:
            if not waiting.done():
                release()

    def hold(self, release: Callable[[], None]) -> None:
        """The reply is kept back by choice: see `Connection.hold`."""
        self.connection.hold(release)

    def when_closed(self, listener: object, action: Callable[[], None]) -> None:
        """Do this when the connection is gone, once for each listener."""
        self.close_listeners[listener] = action

    def closed(self) -> None:
        """The connection is gone."""
        listeners, self.close_listeners = self.close_listeners, {}
        for action in listeners.values():
            action()

    @property
    def is_gone(self) -> bool:
        return self.connection.closed

    def close(self, reason: str) -> None:
        """End the connection at once: the only thing a client that expects no reply can notice."""
        self.connection.abort(reason)

    def __repr__(self) -> str:
        return f"{self.host}:{self.port} ({self.principal}, listener {self.listener})"


class RequestContext:
    """The head of one request, and the `peer` that sent it: its `host`, `listener`, `principal`."""

    __slots__ = ("api_key", "api_version", "client_id", "correlation_id", "parts", "peer")

    def __init__(
        self,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        peer: Peer,
        parts: Parts,
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.peer = peer
        self.parts = parts

    @property
    def controller(self) -> Controller:
        """The active controller, which is told for whom it is asked."""
        return self.parts.controller.on_behalf_of(self.peer.principal, self.peer.host, self.client_id)

    def __repr__(self) -> str:
        return (
            f"<api {self.api_key} v{self.api_version} #{self.correlation_id}"
            f" of {self.client_id!r} at {self.peer}>"
        )
