"""The console's HTTP/1.1 server: requests with bodies, replies, and streams of events.

The nodes' own listener (`transport/http_listener.py`) answers plain GETs only, on purpose: it is open where
brokers are. This one is for browsers. Everything has a limit: heads, bodies, connections, and the time that a
peer may take. What cannot be understood is answered with an error and closed.
"""

import asyncio
import contextlib
import json
import logging
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl

log = logging.getLogger(__name__)

HEAD_BYTES_MAX: Final = 16 * 1024
BODY_BYTES_MAX: Final = 2 << 20
"""A record to write has at most 1 MiB in most clusters, and is sent as base64."""
CONNECTIONS_MAX: Final = 256
HEAD_S: Final = 10.0
BODY_S: Final = 30.0
IDLE_S: Final = 120.0
DRAIN_S: Final = 30.0
"""For a peer to read what it asked for."""
EVENT_PAUSE_S: Final = 15.0
"""A stream without events says that it is alive: proxies close silent ones."""
PACKED_FROM_BYTES: Final = 1400
"""Smaller replies fit into one packet as they are."""

JSON_TYPE: Final = "application/json"

_REASONS: Final = {
    200: "OK",
    204: "No Content",
    303: "See Other",
    304: "Not Modified",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    411: "Length Required",
    413: "Content Too Large",
    421: "Misdirected Request",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}


@dataclass(frozen=True, slots=True)
class ConsoleRequest:
    """What a browser asks. Names of headers are in small letters; `path` is as it was sent, still quoted."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    peer: str

    def json(self) -> dict[str, Any]:
        """The body, which must be a JSON object. RefusedCallError where it is none."""
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):
            raise RefusedCallError(400, "the body is not JSON") from None
        if not isinstance(found, dict):
            raise RefusedCallError(400, "the body is not a JSON object")
        return found


@dataclass(slots=True)
class ConsoleReply:
    """What is answered."""

    status: int = 200
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def json(cls, value: Any, status: int = 200) -> "ConsoleReply":
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        # A lone surrogate can stand in a name that a client made: it has no UTF-8.
        return cls(status, text.encode("utf-8", "backslashreplace"), JSON_TYPE)


@dataclass(slots=True)
class EventReply:
    """Server-sent events; each item is one event's data, None says only that the stream is alive."""

    events: AsyncGenerator[Any, None]
    headers: dict[str, str] = field(default_factory=dict)


class RefusedCallError(Exception):
    """A request that is answered with an error; the text is for the person who asked."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


Respond = Callable[[ConsoleRequest], Awaitable[ConsoleReply | EventReply]]


class ConsoleServer:
    """One address that browsers ask."""

    def __init__(self, respond: Respond) -> None:
        self._respond = respond
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[Any]] = set()

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Open the address; returns it with the port that was picked for 0. OSError where it is taken."""
        self._server = await asyncio.start_server(self._on_newcomer, host, port, limit=HEAD_BYTES_MAX)
        address = self._server.sockets[0].getsockname()
        return str(address[0]), int(address[1])

    async def close(self) -> None:
        """Hear nobody any more; replies and streams under way are cut off."""
        if self._server is not None:
            self._server.close()
        for task in list(self._serving):
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _on_newcomer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._serving) >= CONNECTIONS_MAX:
            log.warning(
                "refused a connection: there are %d. Close some of the console's pages", CONNECTIONS_MAX
            )
            writer.close()
            return
        self._serving.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, EOFError, TimeoutError, asyncio.CancelledError):
            pass  # it left, was too slow, or the console ends
        finally:
            self._serving.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = str((writer.get_extra_info("peername") or ("?",))[0])
        wait_s = HEAD_S
        while True:
            try:
                async with asyncio.timeout(wait_s):
                    head = await reader.readuntil(b"\r\n\r\n")
                async with asyncio.timeout(BODY_S):
                    request = await _read(head, reader, peer)
            except asyncio.LimitOverrunError:
                refusal = RefusedCallError(
                    431, f"the head of a request has at most {HEAD_BYTES_MAX} bytes here"
                )
                await _write(writer, _error(refusal), accepts="", closes=True)
                return
            except RefusedCallError as error:
                await _write(writer, _error(error), accepts="", closes=True)
                return
            closes = request.headers.get("connection", "").lower() == "close"
            reply = await self._answer(request)
            if isinstance(reply, EventReply):
                await _stream(writer, reply)
                return
            accepts = request.headers.get("accept-encoding", "")
            is_head = request.method == "HEAD"
            await _write(writer, reply, accepts=accepts, closes=closes, is_head=is_head)
            if closes:
                return
            wait_s = IDLE_S

    async def _answer(self, request: ConsoleRequest) -> ConsoleReply | EventReply:
        try:
            return await self._respond(request)
        except RefusedCallError as error:
            return _error(error)
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            return _error(RefusedCallError(500, "the console failed to answer; its log says why"))


def _error(error: RefusedCallError) -> ConsoleReply:
    return ConsoleReply.json({"error": str(error)}, error.status)


async def _read(head: bytes, reader: asyncio.StreamReader, peer: str) -> ConsoleRequest:
    first, *lines = head[:-4].decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or words[2] not in ("HTTP/1.1", "HTTP/1.0") or not words[1].startswith("/"):
        raise RefusedCallError(400, "the console speaks HTTP/1.1")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise RefusedCallError(400, "a header is broken")
        if name.lower() in headers and name.lower() in ("content-length", "host"):
            raise RefusedCallError(400, f"there are two headers {name}")
        headers[name.lower()] = value.strip()
    if words[2] == "HTTP/1.0":
        headers["connection"] = "close"
    path, _, query = words[1].partition("?")
    body = await _read_body(headers, reader)
    return ConsoleRequest(words[0], path, dict(parse_qsl(query, keep_blank_values=True)), headers, body, peer)


async def _read_body(headers: Mapping[str, str], reader: asyncio.StreamReader) -> bytes:
    if "transfer-encoding" in headers:
        raise RefusedCallError(411, "a body must say its length")
    length = headers.get("content-length", "0")
    if not length.isdecimal():
        raise RefusedCallError(400, "the length of the body is no number")
    if len(length) > 12 or int(length) > BODY_BYTES_MAX:
        raise RefusedCallError(413, f"a body has at most {BODY_BYTES_MAX} bytes here")
    return await reader.readexactly(int(length))


async def _write(
    writer: asyncio.StreamWriter, reply: ConsoleReply, *, accepts: str, closes: bool, is_head: bool = False
) -> None:
    body = reply.body
    headers = dict(reply.headers)
    if "gzip" in accepts and len(body) >= PACKED_FROM_BYTES and "Content-Encoding" not in headers:
        body = await asyncio.to_thread(_packed, body)
        headers["Content-Encoding"] = "gzip"
    if reply.status not in (204, 304):
        headers["Content-Type"] = reply.content_type
        headers["Content-Length"] = str(len(body))
    headers["Connection"] = "close" if closes else "keep-alive"
    writer.write(_head(reply.status, headers) + (b"" if is_head else body))
    async with asyncio.timeout(DRAIN_S):
        await writer.drain()


def _packed(body: bytes) -> bytes:
    """In gzip's form. The lowest level: on a loopback the time counts, elsewhere it is still a fifth."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    return packer.compress(body) + packer.flush()


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [
        f"HTTP/1.1 {status} {_REASONS[status]}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join((*lines, "", "")).encode("latin-1")


async def _stream(writer: asyncio.StreamWriter, reply: EventReply) -> None:
    headers = {**reply.headers, "Content-Type": "text/event-stream", "Connection": "close"}
    writer.write(_head(200, headers))
    async with contextlib.aclosing(reply.events) as events:
        async for event in events:
            # JSON has no line breaks, so one event is one line of data.
            writer.write(b": alive\n\n" if event is None else b"data: %s\n\n" % ConsoleReply.json(event).body)
            async with asyncio.timeout(DRAIN_S):
                await writer.drain()
