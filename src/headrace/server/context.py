"""What a handler knows of the request besides its body: who asks, over which connection, in which version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from headrace.controller.requests import ControllerRequests
    from headrace.server.api_table import ApiTable
    from headrace.server.parts import Parts
    from headrace.transport.connection import Connection

ANONYMOUS: Final = "User:ANONYMOUS"


class NoReply:
    """The type of `NO_REPLY`: what a handler gives where the client expects nothing."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NO_REPLY"


NO_REPLY: Final = NoReply()


class SaslExchange(Protocol):
    """A SASL authentication under way on one connection."""

    @property
    def mechanisms(self) -> Sequence[str]:
        """The mechanisms that this listener offers."""
        ...

    def begin(self, mechanism: str) -> None:
        """Start with a mechanism; ApiError where it is not offered or the exchange is past that point."""
        ...


class Peer:
    """The other end of a connection, for as long as that lasts."""

    __slots__ = (
        "authenticated",
        "connection",
        "host",
        "listener",
        "on_hurry",
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
        self.opened_at = opened_at  # by the loop's time
        self.table = table  # what this listener serves
        self.host, self.port = connection.peer
        self.listener = listener
        self.authenticated = authenticated
        self.sasl = sasl
        self.principal = ANONYMOUS
        self.on_hurry: Callable[[], object] | None = None  # answers the fetch that waits, if one does
        self.software_name = ""  # from ApiVersions v3 on (KIP-511)
        self.software_version = ""

    def hurry(self) -> None:
        """What was asked now is urgent, and replies leave in order: a fetch before it shall not wait."""
        if self.on_hurry is not None:
            self.on_hurry()
            self.on_hurry = None

    def hold(self, release: Callable[[], None]) -> None:
        """The reply is kept back by choice: see `Connection.hold`."""
        self.connection.hold(release)

    @property
    def is_gone(self) -> bool:
        return self.connection.closed

    def close(self, reason: str) -> None:
        """End the connection at once: the only thing a client that expects no reply can notice."""
        self.connection.abort(reason)

    def __repr__(self) -> str:
        return f"{self.host}:{self.port} ({self.principal}, listener {self.listener})"


class RequestContext:
    """The head of one request. `connection` is the peer: its `host`, `listener`, `principal`."""

    __slots__ = ("api_key", "api_version", "client_id", "connection", "correlation_id", "parts")

    def __init__(
        self,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        connection: Peer,
        parts: Parts,
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.connection = connection
        self.parts = parts

    @property
    def controller(self) -> ControllerRequests:
        """The active controller, which is told for whom it is asked."""
        return self.parts.controller.on_behalf_of(self.connection.principal, self.connection.host)

    def __repr__(self) -> str:
        return (
            f"<api {self.api_key} v{self.api_version} #{self.correlation_id}"
            f" of {self.client_id!r} at {self.connection}>"
        )
