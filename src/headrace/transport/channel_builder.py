"""What stands between a socket and its frames, by the listener's security protocol: nothing, TLS, SASL.

A builder is made for a listener out of its settings, and serves both ends: those who connect there, and this
node where it connects to that listener of others. The ones for TLS and SASL are in the room `security`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from headrace.transport.network import Socket

if TYPE_CHECKING:
    from headrace.transport.client_connection import ClientConnection

ANONYMOUS: Final = "User:ANONYMOUS"


class ChannelBuilder(Protocol):
    """Makes connections of one security protocol."""

    def server_socket(self, socket: Socket) -> Socket:
        """Around one that was accepted."""
        ...

    def client_socket(self, socket: Socket, host: str) -> Socket:
        """Around one that is connected to this host; OSError where that cannot be."""
        ...

    async def authenticate(self, connection: ClientConnection, host: str) -> None:
        """Prove to this host who the client is, before anything else is asked; OSError or ApiError where that
        fails."""
        ...

    def principal_of(self, socket: Socket) -> str:
        """Whom the handshake has shown the other side to be; OSError where it may not be anybody."""
        ...


class PlaintextChannelBuilder:
    """PLAINTEXT: the socket as it is, and everybody is anonymous."""

    def server_socket(self, socket: Socket) -> Socket:
        return socket

    def client_socket(self, socket: Socket, host: str) -> Socket:
        return socket

    async def authenticate(self, connection: ClientConnection, host: str) -> None:
        return None

    def principal_of(self, socket: Socket) -> str:
        return ANONYMOUS


PLAINTEXT: Final = PlaintextChannelBuilder()
