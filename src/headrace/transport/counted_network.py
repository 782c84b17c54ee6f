"""A network that counts the bytes of the connections it makes, for ways whose traffic is a metric."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence

from headrace.base.chunks import Buffer, FileSlice
from headrace.transport.network import ListeningSocket, Network, Socket


class CountedNetwork:
    """A Network over another one. Nothing of a client's data goes through it: each byte costs a call more."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.sent_bytes = 0
        self.received_bytes = 0

    def own_name(self) -> str:
        return self._network.own_name()

    def listen(self, host: str, port: int, *, backlog: int) -> ListeningSocket:
        return self._network.listen(host, port, backlog=backlog)

    def lookup(self, loop: asyncio.AbstractEventLoop, host: str) -> Awaitable[str] | None:
        return self._network.lookup(loop, host)

    def connect(self, host: str, port: int) -> Socket:
        return _CountedSocket(self, self._network.connect(host, port))


class _CountedSocket:
    def __init__(self, network: CountedNetwork, socket: Socket) -> None:
        self._network = network
        self._socket = socket
        self.local = socket.local
        self.peer = socket.peer
        self.fileno = socket.fileno
        self.await_bytes = socket.await_bytes
        self.close = socket.close

    def recv_into(self, buffer: bytearray | memoryview) -> int:
        count = self._socket.recv_into(buffer)
        self._network.received_bytes += count
        return count

    def send(self, buffers: Sequence[Buffer]) -> int:
        count = self._socket.send(buffers)
        self._network.sent_bytes += count
        return count

    def send_file(self, part: FileSlice) -> int:
        count = self._socket.send_file(part)
        self._network.sent_bytes += count
        return count
