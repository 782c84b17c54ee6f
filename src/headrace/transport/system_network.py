"""The machine's own network: the only place that makes kernel sockets.

Every socket is non-blocking, sends at once (TCP_NODELAY: replies are gathered by us, not by Nagle) and asks
the kernel to probe silent peers (SO_KEEPALIVE). A buffer size of -1 leaves the kernel to size its buffers as
the load asks.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import random
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from headrace.base.chunks import Buffer, FileSlice

# Buffers of no more than this together are joined and sent as one: cheaper than describing each to the
# kernel.
JOIN_BYTES_MAX: Final = 64 * 1024

# Systems lend ports from 32768 (Linux) or 49152 on to outgoing connections. What is here has its controller
# 10,000 above, where neither that nor anything from here is.
_NEVER_LENT: Final = range(10_000, 20_000)


class SystemSocket:
    """A connected kernel socket."""

    __slots__ = ("_fd", "_send_one", "_socket", "local", "peer", "recv_into")

    recv_into: Callable[[bytearray | memoryview], int]

    def __init__(self, sock: socket.socket, peer: tuple[str, int]) -> None:
        self._socket = sock
        self._fd = sock.fileno()
        # The methods of the kernel socket themselves: a call less on every read and write.
        self.recv_into = sock.recv_into
        self._send_one = sock.send
        self.peer = peer
        self.local = _plain_address(sock.getsockname())

    def fileno(self) -> int:
        return self._fd

    def await_bytes(self, count: int) -> None:
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)

    def send(self, buffers: Sequence[Buffer]) -> int:
        if len(buffers) == 1:
            return self._send_one(buffers[0])
        if sum(map(len, buffers)) <= JOIN_BYTES_MAX:
            return self._send_one(b"".join(buffers))
        return self._socket.sendmsg(buffers)

    def send_file(self, part: FileSlice) -> int:
        return os.sendfile(self._fd, part.file.fileno(), part.position, part.size)

    def close(self) -> None:
        self._socket.close()


class SystemListeningSocket:
    """A listening kernel socket."""

    def __init__(self, sock: socket.socket, options: SocketOptions) -> None:
        self._socket = sock
        self._options = options
        self.address = _plain_address(sock.getsockname())

    def fileno(self) -> int:
        return self._socket.fileno()

    def accept(self) -> SystemSocket:
        sock, peer = self._socket.accept()
        try:
            self._options.apply(sock)
            return SystemSocket(sock, _plain_address(peer))
        except OSError as error:
            sock.close()
            # The peer was gone before we looked; the same to the caller as the kernel's own word for it.
            raise ConnectionAbortedError(errno.ECONNABORTED, str(error)) from error

    def close(self) -> None:
        self._socket.close()


class SocketOptions:
    """What is set on every socket; sizes of -1 are left to the kernel."""

    def __init__(self, *, send_buffer_bytes: int = -1, receive_buffer_bytes: int = -1) -> None:
        self.send_buffer_bytes = send_buffer_bytes
        self.receive_buffer_bytes = receive_buffer_bytes

    def apply(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.apply_sizes(sock)

    def apply_sizes(self, sock: socket.socket) -> None:
        """Must be on a listening socket before it listens, for the kernel to agree on a large window."""
        if self.send_buffer_bytes >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.send_buffer_bytes)
        if self.receive_buffer_bytes >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_buffer_bytes)


class SystemNetwork:
    """Listeners and connections of this machine, over IPv4 and IPv6.

    To listen at a name or connect to it looks it up as the system does, which blocks: who may not wait asks
    `lookup` for the address first.
    """

    def __init__(self, options: SocketOptions | None = None) -> None:
        self._options = options or SocketOptions()

    def own_name(self) -> str:
        return socket.getfqdn()

    def listen(self, host: str, port: int, *, backlog: int) -> SystemListeningSocket:
        """An empty host means every address of the machine, of both families where the kernel can."""
        if not host and socket.has_dualstack_ipv6():
            return self._listen_at(socket.AF_INET6, ("::", port), backlog, dual=True)
        family, _, _, _, address = _resolve(host or "0.0.0.0", port, passive=True)
        return self._listen_at(family, address, backlog, dual=False)

    def _listen_at(self, family: int, address: Any, backlog: int, *, dual: bool) -> SystemListeningSocket:
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            # A node that restarts gets its port back at once, though old connections linger in TIME_WAIT.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(not dual))
            self._options.apply_sizes(sock)
            sock.setblocking(False)
            sock.bind(address)
            sock.listen(backlog)
            return SystemListeningSocket(sock, self._options)
        except BaseException:
            sock.close()
            raise

    def lookup(self, loop: asyncio.AbstractEventLoop, host: str) -> Awaitable[str] | None:
        """Asked of the system by a thread: a name server that is gone holds nobody else up."""
        return None if _is_address(host) else _looked_up(loop, host)

    def connect(self, host: str, port: int) -> SystemSocket:
        family, _, _, _, address = _resolve(host, port, passive=False)
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._options.apply(sock)
            with contextlib.suppress(BlockingIOError, InterruptedError):
                sock.connect(address)
            return SystemSocket(sock, _plain_address(address))
        except BaseException:
            sock.close()
            raise


def _resolve(host: str, port: int, *, passive: bool) -> Any:
    flags = socket.AI_PASSIVE if passive else 0
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)[0]


def _is_address(host: str) -> bool:
    try:
        socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST)
    except OSError:
        return False
    return True


async def _looked_up(loop: asyncio.AbstractEventLoop, host: str) -> str:
    found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return str(found[0][4][0])


def _plain_address(address: Any) -> tuple[str, int]:
    """Host and port; an IPv4 peer of a dual-stack listener by its IPv4 address, for limits to see."""
    host, port = address[0], address[1]
    return host.removeprefix("::ffff:") if "." in host else host, port


def tell_service_manager(state: str) -> None:
    """What systemd is told of this service, as `READY=1` (sd_notify(3)); nothing where nobody asks."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    name = f"\0{address[1:]}" if address.startswith("@") else address
    # A manager that has gone is no reason for a node not to serve.
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.sendto(state.encode(), name)


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Ports that nobody listens on, and that nobody is given by chance, now or while their server is down.

    They lie below those that systems lend to outgoing connections. Each has carried a connection, closed from
    this end: until that is forgotten (TIME_WAIT, a minute), who asks here too is given another one.
    """
    ports: list[int] = []
    for port in random.SystemRandom().sample(_NEVER_LENT, len(_NEVER_LENT)):
        if len(ports) == count:
            break
        with contextlib.suppress(OSError), socket.socket() as server:
            server.bind((host, port))
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # for who is to have it
            server.listen()
            with socket.create_connection(server.getsockname()[:2]) as client:
                server.accept()[0].close()
                client.recv(1)  # its end has come: the accepted one closed first
            ports.append(port)
    if len(ports) < count:
        raise OSError(errno.EADDRINUSE, f"{count} ports are wanted, {host} has {len(ports)} free ones")
    return ports
