"""Waiting for sockets, the one thing that a blocking client does which a simulator would have to replace."""

import select
from collections.abc import Sequence
from typing import Protocol


class Waiter(Protocol):
    """Blocks until a socket is ready. A timeout below 0 waits no time at all."""

    def readable(self, sockets: Sequence[int], timeout_ms: int) -> list[int]:
        """Those of the sockets that can be read, perhaps none; without sockets this is a pause."""
        ...

    def writable(self, socket: int, timeout_ms: int) -> bool: ...


class SystemWaiter:
    """Waits with the kernel's poll."""

    def readable(self, sockets: Sequence[int], timeout_ms: int) -> list[int]:
        return self._poll(sockets, select.POLLIN, timeout_ms)

    def writable(self, socket: int, timeout_ms: int) -> bool:
        return bool(self._poll((socket,), select.POLLOUT, timeout_ms))

    def _poll(self, sockets: Sequence[int], events: int, timeout_ms: int) -> list[int]:
        poll = select.poll()
        for socket in sockets:
            poll.register(socket, events)
        return [socket for socket, _ in poll.poll(max(0, timeout_ms))]
