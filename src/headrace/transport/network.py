"""The only door to sockets: what a transport needs of a network, so that a simulator can stand in for it.

A socket's `fileno()` goes to `loop.add_reader` / `loop.add_writer`. The real network gives the kernel's
numbers and the simulated loop gives numbers of its own, so the code between cannot tell them apart.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Protocol

from headrace.base.chunks import Buffer, FileSlice


class Socket(Protocol):
    """A connected, non-blocking byte stream. Every call may raise BlockingIOError or another OSError."""

    local: tuple[str, int]
    peer: tuple[str, int]

    def fileno(self) -> int: ...

    def recv_into(self, buffer: bytearray | memoryview) -> int:
        """Bytes read into the buffer; 0 once the peer has closed."""
        ...

    def await_bytes(self, count: int) -> None:
        """Fewer bytes than that are of no use: the loop need not be woken for them, but may be. 1 is as it
        was in the beginning.
        """
        ...

    def send(self, buffers: Sequence[Buffer]) -> int:
        """Send several buffers in one call (sendmsg); returns the bytes taken, perhaps fewer than offered."""
        ...

    def send_file(self, part: FileSlice) -> int:
        """Send from a file (sendfile); returns the bytes taken. 0 means the file ended early."""
        ...

    def close(self) -> None: ...


class ListeningSocket(Protocol):
    """Accepts connections. Readable when one is waiting."""

    address: tuple[str, int]

    def fileno(self) -> int: ...

    def accept(self) -> Socket:
        """The next connection; BlockingIOError when there is none."""
        ...

    def close(self) -> None: ...


class Network(Protocol):
    """Where listeners and connections come from."""

    def own_name(self) -> str:
        """The name under which others reach this machine, for listeners that name no host."""
        ...

    def listen(self, host: str, port: int, *, backlog: int) -> ListeningSocket:
        """Port 0 picks a free one; the result's `address` says which."""
        ...

    def lookup(self, loop: asyncio.AbstractEventLoop, host: str) -> Awaitable[str] | None:
        """The address that a name stands for, OSError where there is none; None where `connect` takes it as
        it is, without blocking."""
        ...

    def connect(self, host: str, port: int) -> Socket:
        """Begin to connect: writable when that is through, and the first use tells of a failure."""
        ...
