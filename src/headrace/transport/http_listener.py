"""A small HTTP/1.1 server for whoever watches a node: GET alone, short heads, few connections, time limits.

It is no way to the cluster's data, and does no more than probes and scrapers need. A connection has one
request at a time, and is kept for the next one. With a channel builder that has TLS it is HTTPS. What is not
a plain GET is answered with an error and closed; who is slow, to ask or to read, is closed without a word.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from headrace.telemetry.limited_log import LimitedLog
from headrace.transport.channel_builder import PLAINTEXT, ChannelBuilder
from headrace.transport.network import ListeningSocket, Network, Socket
from headrace.transport.tls import TlsSocket

log = logging.getLogger(__name__)

# Scrapers come with one connection each, probes with one for each question.
CONNECTIONS_MAX: Final = 32
BACKLOG: Final = 64
HEAD_BYTES_MAX: Final = 8 * 1024  # of a scraper it is some 300
READ_BYTES: Final = 4 * 1024
HEAD_S: Final = 10.0
IDLE_S: Final = 300.0  # longer than scrapers pause
REPLY_S: Final = 60.0
"""To make a reply and to have it read."""
TURN_BYTES_MAX: Final = 256 * 1024
"""Sent in one turn of the loop: others are served between two."""

_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A GET. Names of headers are in small letters."""

    path: str
    headers: dict[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class HttpReply:
    """What is answered."""

    status: int = 200
    body: Sequence[bytes] = ()
    content_type: str = "text/plain; charset=utf-8"

    @classmethod
    def text(cls, status: int, text: str) -> HttpReply:
        return cls(status, (text.encode() + b"\n",))


Respond = Callable[[HttpRequest], "HttpReply | asyncio.Future[HttpReply]"]


class HttpListener:
    """One address that answers GETs with what `respond` gives, at once or later."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        network: Network,
        respond: Respond,
        *,
        channel_builder: ChannelBuilder = PLAINTEXT,
    ) -> None:
        self.loop = loop
        self._channel_builder = channel_builder
        self.respond = respond
        self._network = network
        self._socket: ListeningSocket | None = None
        self._connections: set[_HttpConnection] = set()
        self.refusals = LimitedLog(loop.time, log, logging.WARNING)

    def listen(self, host: str, port: int) -> tuple[str, int]:
        """Open the address; returns it with the port that was picked for 0."""
        self._socket = self._network.listen(host, port, backlog=BACKLOG)
        self.loop.add_reader(self._socket.fileno(), self._on_newcomers)
        return self.address

    @property
    def address(self) -> tuple[str, int]:
        assert self._socket is not None
        return self._socket.address

    def close(self) -> None:
        """Hear nobody any more; replies under way are cut off."""
        if self._socket is not None:
            self.loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None
        for connection in list(self._connections):
            connection.close()

    def _on_newcomers(self) -> None:
        assert self._socket is not None
        try:
            socket = self._socket.accept()
        except OSError:
            return  # it left before it was let in, or there are no descriptors: the loop asks again
        if len(self._connections) >= CONNECTIONS_MAX:
            self.refusals.write(
                "refused %s at the metrics' listener: it has %d connections. Let fewer scrapers ask",
                *(socket.peer[0], CONNECTIONS_MAX),
            )
            socket.close()
            return
        self._connections.add(_HttpConnection(self, self._channel_builder.server_socket(socket)))

    def forget(self, connection: _HttpConnection) -> None:
        self._connections.discard(connection)


class _HttpConnection:
    """One peer: reads a head, has it answered, sends the reply, and begins again."""

    def __init__(self, listener: HttpListener, socket: Socket) -> None:
        self._listener = listener
        self._loop = listener.loop
        self._socket = socket
        self._head = bytearray()
        self._unsent: deque[memoryview] = deque()
        self._closes = False
        self._is_closed = False
        self._reads = False
        self._writes = False
        self._timer = self._loop.call_later(HEAD_S, self.close)
        if isinstance(socket, TlsSocket):
            self._loop.add_reader(socket.fileno(), self._shake_hands, socket)
        else:
            self._read_on()

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._reads = False
        self._timer.cancel()
        self._loop.remove_reader(self._socket.fileno())
        if self._writes:
            self._loop.remove_writer(self._socket.fileno())
        self._socket.close()
        self._listener.forget(self)

    def _limit(self, seconds: float) -> None:
        self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self.close)

    # The handshake of TLS

    def _shake_hands(self, tls: TlsSocket) -> None:
        try:
            is_through = tls.shake_hands()
        except OSError as error:
            self._listener.refusals.write("closing %s at the metrics' listener: %s", tls.peer[0], error)
            self.close()
            return
        if tls.has_unsent:
            self._writes = True
            self._loop.add_writer(tls.fileno(), self._shake_hands, tls)
        elif self._writes:
            self._writes = False
            self._loop.remove_writer(tls.fileno())
        if is_through and not tls.has_unsent:
            self._read_on()

    # Asking

    def _read_on(self) -> None:
        self._reads = True
        self._loop.add_reader(self._socket.fileno(), self._on_readable)
        self._read_rest()

    def _read_rest(self) -> None:
        """TLS may have taken more from the kernel than was read."""
        if self._reads and isinstance(self._socket, TlsSocket) and self._socket.has_more:
            self._loop.call_soon(self._on_readable)

    def _on_readable(self) -> None:
        if self._is_closed or not self._reads:
            return
        buffer = bytearray(READ_BYTES)
        try:
            count = self._socket.recv_into(buffer)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            count = 0
        if not count:
            self.close()
            return
        if not self._head:
            self._limit(HEAD_S)
        self._head += buffer[:count]
        self._serve_head()
        self._read_rest()

    def _serve_head(self) -> None:
        """Answer what is asked, once its head is whole."""
        end = self._head.find(b"\r\n\r\n")
        if end < 0 and len(self._head) <= HEAD_BYTES_MAX:
            return
        self._reads = False
        self._loop.remove_reader(self._socket.fileno())  # one at a time: the next waits in the kernel
        self._limit(REPLY_S)
        if end < 0:
            self._refuse(431, f"the head of a request has at most {HEAD_BYTES_MAX} bytes here")
            return
        head = bytes(self._head[:end])
        del self._head[: end + 4]
        request = self._read(head)
        if request is None:
            return
        try:
            reply = self._listener.respond(request)
        except Exception:
            log.exception("GET %s failed", request.path)
            self._refuse(500, "the node failed to answer; its log says why")
            return
        if isinstance(reply, HttpReply):
            self._reply(reply)
        else:
            reply.add_done_callback(self._made)

    def _read(self, head: bytes) -> HttpRequest | None:
        """The request of a head; None where it was refused."""
        first, *lines = head.decode("latin-1").split("\r\n")
        words = first.split(" ")
        if len(words) != 3 or words[2] not in ("HTTP/1.1", "HTTP/1.0"):
            self._refuse(400, "this listener speaks HTTP/1.1")
            return None
        headers = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon or not name or name != name.strip():
                self._refuse(400, "a header is broken")
                return None
            headers[name.lower()] = value.strip()
        if words[0] != "GET":
            self._refuse(405, "this listener answers GET alone")
            return None
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            self._refuse(400, "a GET has no body here")
            return None
        self._closes = words[2] == "HTTP/1.0" or headers.get("connection", "").lower() == "close"
        return HttpRequest(words[1].partition("?")[0], headers)

    # Answering

    def _made(self, done: asyncio.Future[HttpReply]) -> None:
        if self._is_closed:
            return
        if done.cancelled():
            self.close()
        elif (error := done.exception()) is not None:
            log.error("a reply to a GET failed", exc_info=error)
            self._refuse(500, "the node failed to answer; its log says why")
        else:
            self._reply(done.result())

    def _refuse(self, status: int, why: str) -> None:
        """Answer with an error. What comes behind a broken request cannot be trusted."""
        self._closes = True
        self._reply(HttpReply.text(status, why))

    def _reply(self, reply: HttpReply) -> None:
        size = sum(map(len, reply.body))
        lines = [
            f"HTTP/1.1 {reply.status} {_REASONS[reply.status]}",
            f"Content-Type: {reply.content_type}",
            f"Content-Length: {size}",
            f"Connection: {'close' if self._closes else 'keep-alive'}",
        ]
        if reply.status == 405:
            lines.append("Allow: GET")
        if reply.status == 401:
            lines.append("WWW-Authenticate: Bearer")
        self._unsent.append(memoryview("\r\n".join((*lines, "", "")).encode()))
        self._unsent.extend(memoryview(each) for each in reply.body if each)
        self._send()

    def _send(self) -> None:
        sent = 0
        try:
            while self._unsent and sent < TURN_BYTES_MAX:
                taken = self._socket.send((self._unsent[0],))
                sent += taken
                if taken < len(self._unsent[0]):
                    self._unsent[0] = self._unsent[0][taken:]
                else:
                    self._unsent.popleft()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self.close()
            return
        self._watch_writable(bool(self._unsent))
        if not self._unsent:
            self._replied()

    def _watch_writable(self, wanted: bool) -> None:
        if wanted is not self._writes:
            self._writes = wanted
            if wanted:
                self._loop.add_writer(self._socket.fileno(), self._send)
            else:
                self._loop.remove_writer(self._socket.fileno())

    def _replied(self) -> None:
        if self._closes:
            self.close()
            return
        self._limit(IDLE_S)
        self._read_on()
        if self._head:
            self._loop.call_soon(self._serve_next)

    def _serve_next(self) -> None:
        """What was read together with the request before it."""
        if not self._is_closed and not self._unsent and self._head:
            self._serve_head()
