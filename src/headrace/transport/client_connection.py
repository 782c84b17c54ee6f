"""The asking side of a connection: requests out, and the reply to each as a future.

    connection = await connect(loop, network, host, port, memory=memory, client_id="a", timeout_ms=5000)
    response = await connection.ask(MetadataRequest(...), 12, MetadataResponse)

Several requests may be under way; a broker answers them in order, and a reply with another correlation id
than the oldest request's breaks the connection. A request that is not answered within its time-out breaks it
too, as in Kafka's own clients: whatever comes later could not be told from the replies to later requests.
When a connection ends, all futures that are left fail with ConnectionError.

Requests may be held: while a login is made again (KIP-368), and while the broker throttles this client by a
quota, which its replies tell (KIP-219). They are sent, in order, when nobody holds them any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Generator
from types import GeneratorType
from typing import Any, Final, NamedTuple, TypeVar

from headrace.base.errors import InvalidBytesError
from headrace.base.futures import chain
from headrace.telemetry.limited_log import LimitedLog
from headrace.transport.channel_builder import PLAINTEXT, ChannelBuilder
from headrace.transport.connection import Connection
from headrace.transport.idle import IdleReaper
from headrace.transport.limits import MIB, ConnectionLimits
from headrace.transport.network import Network, Socket
from headrace.transport.receive_memory import ReceiveMemory
from headrace.transport.secure_connection import SecureConnection
from headrace.transport.serving_turns import ServingTurns
from headrace.transport.throttling import client_throttles
from headrace.transport.tls import TlsSocket, handshake
from headrace.wire.framing import read_response, request_frame, response_correlation_id
from headrace.wire.notation import schema_of

T = TypeVar("T")

log = logging.getLogger(__name__)

# A client asked for what it gets, so a reply may be as large as a broker's largest fetch (Kafka: no limit at
# all). It does not idle out by itself: brokers close what they have not heard of for long.
CLIENT_LIMITS: Final = ConnectionLimits(frame_bytes_max=512 * MIB, unsent_bytes_max=64 * MIB, idle_ms_max=0)


_LOGIN: Final = "login"
_THROTTLE: Final = "throttle"


class _Asked(NamedTuple):
    correlation_id: int
    deadline: float
    read: Callable[[memoryview], Any]
    future: asyncio.Future[Any]
    response: type
    version: int


class ClientConnection:
    """An open connection to a broker. Made by `connect`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        socket: Socket,
        *,
        memory: ReceiveMemory,
        client_id: str | None,
        limits: ConnectionLimits = CLIENT_LIMITS,
        on_close: Callable[[str], None] | None = None,
        serving: ServingTurns | None = None,
    ) -> None:
        self._loop = loop
        self._client_id = client_id
        self._on_close = on_close
        self._asked: deque[_Asked] = deque()
        self._being_read: _Asked | None = None  # in slices
        self._held: list[Callable[[], None]] | None = None
        self._holders: set[str] = set()
        self._throttled_until = 0.0
        self._throttle_timer: asyncio.TimerHandle | None = None
        self._last_id = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        parts: dict[str, Any] = {
            "memory": memory,
            "limits": limits,
            "on_frame": self._on_frame,
            "on_close": self._closed,
            "idle": IdleReaper(loop, limits.idle_ms_max),
            "limited_log": LimitedLog(loop.time, log, logging.INFO),
            "serving": serving,
        }
        self._connection = (
            SecureConnection(loop, socket, **parts)
            if isinstance(socket, TlsSocket)
            else Connection(loop, socket, **parts)
        )
        self._connection.start()

    def __repr__(self) -> str:
        return repr(self._connection)

    @property
    def is_open(self) -> bool:
        return not self._connection.closed

    @property
    def peer(self) -> tuple[str, int]:
        return self._connection.peer

    @property
    def in_flight(self) -> int:
        """Requests without a reply yet."""
        return len(self._asked) + len(self._held or ())

    @property
    def throttle_ms(self) -> float:
        """How long nothing is sent, because the broker throttles this client."""
        if not self._throttled_until:
            return 0.0
        return max(0.0, (self._throttled_until - self._loop.time()) * 1000)

    @property
    def unsent_bytes(self) -> int:
        """Bytes of requests that the kernel has not taken: hold back where they are many."""
        return self._connection.unsent_bytes

    def ask(
        self,
        message: object,
        version: int,
        response: type[T],
        *,
        timeout_ms: int = 30_000,
        read: Callable[[memoryview], T] | None = None,
    ) -> asyncio.Future[T]:
        """Send a request; the future gives its response.

        `read` may turn the reply's frame (correlation id first) into the result in place, without the copy
        that is made otherwise: the frame is gone when it returns. What takes long there may be a generator,
        which yields between slices and returns the result: the frame stays until then, and nothing else is
        read from the connection.
        """
        if self._held is not None:
            return self._ask_later(
                lambda: self.ask(message, version, response, timeout_ms=timeout_ms, read=read)
            )
        future: asyncio.Future[T] = self._loop.create_future()
        if self._connection.closed:
            future.set_exception(ConnectionError(f"{self} is closed"))
            return future
        correlation_id = self._next_id()
        frame = request_frame(message, version, correlation_id, self._client_id)
        deadline = self._loop.time() + timeout_ms / 1000
        # The response may hold views of its frame (records), so it gets a copy of its own.
        reading = read or (lambda frame: read_response(response, version, bytes(frame)))
        self._asked.append(_Asked(correlation_id, deadline, reading, future, response, version))
        self._watch(deadline)
        self._connection.send(frame)
        return future

    def ask_now(
        self, message: object, version: int, response: type[T], *, timeout_ms: int = 30_000
    ) -> asyncio.Future[T]:
        """The same, before what is held."""
        held, self._held = self._held, None
        try:
            return self.ask(message, version, response, timeout_ms=timeout_ms)
        finally:
            self._held = held

    def _ask_later(self, ask: Callable[[], asyncio.Future[T]]) -> asyncio.Future[T]:
        assert self._held is not None
        answer: asyncio.Future[T] = self._loop.create_future()
        self._held.append(lambda: chain(ask(), answer))
        return answer

    def tell(self, message: object, version: int) -> None:
        """Send a request that gets no reply (Produce with acks=0)."""
        if self._held is not None:
            self._held.append(lambda: self.tell(message, version))
            return
        self._connection.send(request_frame(message, version, self._next_id(), self._client_id))

    def hold_requests(self) -> None:
        """What is asked from now on waits: a login that comes again must not be interrupted (KIP-368)."""
        self._hold(_LOGIN)

    def release_requests(self) -> None:
        """Send what was held, unless it has to wait for something else too."""
        self._release(_LOGIN)

    def _hold(self, holder: str) -> None:
        self._holders.add(holder)
        if self._held is None:
            self._held = []

    def _release(self, holder: str) -> None:
        self._holders.discard(holder)
        if not self._holders:
            held, self._held = self._held, None
            for send in held or ():
                send()

    def _throttle(self, throttle_ms: int) -> None:
        """The broker reads nothing until then: nothing is sent until then (KIP-219)."""
        until = self._loop.time() + throttle_ms / 1000
        if not self._throttled_until:
            log.warning(
                "%s: a quota of the broker throttles this client: nothing is sent to it for %d ms. "
                "Later times are waited for without a line.",
                *(self, throttle_ms),
            )
        if until > self._throttled_until:
            self._throttled_until = until
            self._hold(_THROTTLE)
            if self._throttle_timer is not None:
                self._throttle_timer.cancel()
            self._throttle_timer = self._loop.call_at(until, self._release, _THROTTLE)

    def close(self, reason: str = "closed by this side") -> None:
        self._connection.abort(reason)

    def _next_id(self) -> int:
        self._last_id = (self._last_id + 1) & 0x7FFFFFFF
        return self._last_id

    def _on_frame(self, connection: Connection, frame: memoryview) -> None:
        correlation_id = response_correlation_id(frame)
        if not self._asked or self._asked[0].correlation_id != correlation_id:
            raise InvalidBytesError(f"a reply to request {correlation_id}, which is not the one waited for")
        asked = self._asked.popleft()
        if asked.future.done():
            return  # nobody waits for it any more
        try:
            result = asked.read(frame)
        except Exception as error:
            asked.future.set_exception(error)
            raise
        if isinstance(result, GeneratorType):
            self._being_read = asked
            connection.keep_frame()
            connection.work_on(self._finish(asked, result))
        else:
            self._answer(asked, result)

    def _finish(self, asked: _Asked, slices: Generator[Any, None, Any]) -> Generator[Any, None, None]:
        """Go on with a reply that is read in slices; `_closed` tells where the connection ends first."""
        try:
            self._answer(asked, (yield from slices))
        except Exception as error:
            if not asked.future.done():
                asked.future.set_exception(error)
            raise
        self._being_read = None

    def _answer(self, asked: _Asked, result: Any) -> None:
        if asked.future.done():
            return  # nobody waits for it any more
        if getattr(result, "throttle_time_ms", 0) > 0 and client_throttles(
            schema_of(asked.response).api_key, asked.version
        ):
            self._throttle(result.throttle_time_ms)
        asked.future.set_result(result)

    def _watch(self, deadline: float) -> None:
        """The timer follows deadlines lazily: most requests are answered long before theirs comes."""
        if self._timer is not None:
            if self._timer_at <= deadline:
                return
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._loop.call_at(deadline, self._check_deadlines)

    def _check_deadlines(self) -> None:
        self._timer = None
        if self._asked:
            # Replies come in order: a request whose time is up breaks the connection for all.
            deadline = min(asked.deadline for asked in self._asked)
            if deadline <= max(self._loop.time(), self._timer_at):
                self._connection.abort("no reply in time")
            else:
                self._watch(deadline)

    def _closed(self, connection: Connection, reason: str) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        asked, self._asked = self._asked, deque()
        if self._being_read is not None:
            asked.appendleft(self._being_read)
        for one in asked:
            if not one.future.done():
                one.future.set_exception(ConnectionError(f"{connection}: {reason}"))
        if self._throttle_timer is not None:
            self._throttle_timer.cancel()
        self._holders.clear()
        self.release_requests()
        if self._on_close is not None:
            self._on_close(reason)


async def connect(
    loop: asyncio.AbstractEventLoop,
    network: Network,
    host: str,
    port: int,
    *,
    memory: ReceiveMemory,
    client_id: str | None = None,
    timeout_ms: int = 10_000,
    limits: ConnectionLimits = CLIENT_LIMITS,
    on_close: Callable[[str], None] | None = None,
    channel_builder: ChannelBuilder = PLAINTEXT,
    server_name: str = "",
    serving: ServingTurns | None = None,
) -> ClientConnection:
    """Open a connection; OSError (TimeoutError among them) where that fails. `server_name` is who is meant to
    answer there, where `host` is only one of its addresses."""
    server_name = server_name or host
    address = network.lookup(loop, host)
    if address is not None:
        host = await asyncio.wait_for(address, timeout_ms / 1000)
    socket = network.connect(host, port)
    try:
        await _connected(loop, socket, timeout_ms)
        # The first use of a socket tells whether it is really connected.
        socket.send((b"",))
        socket = channel_builder.client_socket(socket, server_name)
        if isinstance(socket, TlsSocket):
            await handshake(loop, socket, timeout_ms)
    except BaseException:
        socket.close()
        raise
    connection = ClientConnection(
        loop, socket, memory=memory, client_id=client_id, limits=limits, on_close=on_close, serving=serving
    )
    try:
        await channel_builder.authenticate(connection, server_name)
    except BaseException:
        connection.close()
        raise
    return connection


async def _connected(loop: asyncio.AbstractEventLoop, socket: Socket, timeout_ms: int) -> None:
    """Wait until the socket is writable: the attempt to connect has ended, one way or the other."""
    through: asyncio.Future[None] = loop.create_future()

    def is_through() -> None:
        if not through.done():
            through.set_result(None)

    def is_late() -> None:
        if not through.done():
            through.set_exception(TimeoutError(f"no connection to {socket.peer} within {timeout_ms} ms"))

    loop.add_writer(socket.fileno(), is_through)
    timer = loop.call_later(timeout_ms / 1000, is_late)
    try:
        await through
    finally:
        timer.cancel()
        loop.remove_writer(socket.fileno())
