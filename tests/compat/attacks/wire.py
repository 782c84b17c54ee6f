"""Requests as bytes and the sockets they are sent by."""

import select
import socket
import struct
import threading
import time

from headrace.wire.framing import request_frame

CONNECT_SECONDS = 10.0


def frame(message: object, version: int, correlation_id: int = 1) -> bytes:
    """A request with its length and header."""
    return b"".join(bytes(chunk) for chunk in request_frame(message, version, correlation_id, "attack"))  # type: ignore[arg-type]


def connect(bootstrap: str) -> socket.socket:
    host, port = bootstrap.split(",")[0].rsplit(":", 1)
    made = socket.create_connection((host, int(port)), CONNECT_SECONDS)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def receive(own: socket.socket, seconds: float = 120.0) -> bytes:
    """The next frame without its length; ConnectionError where there will be none."""
    own.settimeout(seconds)
    size = struct.unpack(">i", _exactly(own, 4))[0]
    return _exactly(own, size)


def _exactly(own: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = own.recv(min(size - len(data), 1 << 20))
        if not piece:
            raise ConnectionError("closed by the broker")
        data += piece
    return bytes(data)


def ask(bootstrap: str, message: object, version: int) -> bytes:
    """One request on a connection of its own."""
    with connect(bootstrap) as own:
        own.sendall(frame(message, version))
        return receive(own)


def flood(own: socket.socket, data: bytes, seconds: float) -> None:
    """Send as much of it as the broker takes in this time."""
    view = memoryview(data)
    deadline = time.monotonic() + seconds
    while view and time.monotonic() < deadline:
        try:
            if select.select((), (own,), (), 0.2)[1]:
                view = view[own.send(view[: 1 << 20], socket.MSG_DONTWAIT) :]
        except BlockingIOError:
            continue
        except OSError:
            return


def let_pass(seconds: float) -> None:
    """How long an attack lasts is part of what is measured: there is no condition to wait for."""
    threading.Event().wait(seconds)


class Replies:
    """Reads and counts the frames that come, in a thread, until there were so many or the connection ends."""

    def __init__(self, own: socket.socket, expected: int) -> None:
        self.count = 0
        self._own = own
        self._expected = expected
        self._thread = threading.Thread(target=self._run, daemon=True)
        own.settimeout(None)
        self._thread.start()

    def wait(self, seconds: float) -> None:
        self._thread.join(seconds)

    def _run(self) -> None:
        stream = self._own.makefile("rb", buffering=1 << 20)
        try:
            while self.count < self._expected:
                size = struct.unpack(">i", stream.read(4))[0]
                while size:
                    size -= len(stream.read(min(size, 1 << 20)) or b"") or size
                self.count += 1
        except (OSError, ValueError, struct.error):
            pass
