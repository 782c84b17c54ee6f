"""A client of another node: requests in order on one connection, made when it is needed, and again when lost.

    node = NodeClient(network, loop, clock, resolve=find, client_id="1", memory=memory, rng=rng)
    response = await node.send(FetchRequest(...), timeout_ms=500)

The first exchange on a connection settles the versions (ApiVersions). Requests that come before that wait
for it; an attempt that fails fails them all, and the next one waits for a pause that grows. Where the node
listens is asked anew before each request, so one that moved is found again. A future fails with
ConnectionError where the node could not be reached, did not answer in time or hung up; with ApiError
(UNSUPPORTED_VERSION) where it does not know the request; with InvalidBytesError where its answer cannot be
read.

`on_lost` is told of a connection that was up and is not any more: the first sign of a process that died.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Final, NamedTuple

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.base.futures import chain
from headrace.transport.addresses import address_text, hosts_of
from headrace.transport.backoff import Backoff
from headrace.transport.channel_builder import PLAINTEXT, ChannelBuilder
from headrace.transport.client_connection import ClientConnection, connect
from headrace.transport.network import Network
from headrace.transport.receive_memory import ReceiveMemory
from headrace.transport.serving_turns import ServingTurns
from headrace.transport.tls import TlsError
from headrace.transport.versions import VersionTable, ask_versions
from headrace.wire.apis import API
from headrace.wire.notation import schema_of

Address = tuple[str, int]
Read = Callable[[memoryview, int], Any]
"""Makes a result of a reply's frame and version, in place: the frame is gone when it returns. What takes long
is a generator that returns the result (`ClientConnection.ask`)."""

# Nodes of one cluster are near each other: one that came back must be found within a fraction of a second.
RECONNECT_MS: Final = (20, 500)
SETUP_MS: Final = 2_000


class _Held(NamedTuple):
    """A request that waits for the connection."""

    request: Any
    timeout_ms: int
    at_most: int | None
    read: Read | None
    answer: asyncio.Future[Any]


class NodeClient:
    """One other node. `resolve` tells where it listens now, None where nobody knows."""

    def __init__(
        self,
        network: Network,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        *,
        resolve: Callable[[], Address | None],
        client_id: str,
        memory: ReceiveMemory,
        rng: Random,
        on_lost: Callable[[str], None] | None = None,
        setup_ms: int = SETUP_MS,
        channel_builder: ChannelBuilder = PLAINTEXT,
    ) -> None:
        self._network = network
        self._loop = loop
        self._clock = clock
        self._resolve = resolve
        self._client_id = client_id
        self._memory = memory
        self._on_lost = on_lost
        self._setup_ms = setup_ms
        self._channel_builder = channel_builder
        # The loop's own time may stand still during a turn.
        self._serving = ServingTurns(loop, clock.monotonic_ns)
        self._backoff = Backoff(*RECONNECT_MS, rng)
        self._held: deque[_Held] = deque()
        self._connection: ClientConnection | None = None
        self._address: Address | None = None
        self._versions = VersionTable("", ())
        self._connecting: asyncio.Task[None] | None = None
        self._failures = 0
        self._not_before_ms = 0.0
        self._closed = False

    @property
    def is_connected(self) -> bool:
        """Whether a request would leave at once."""
        return self._connection is not None and self._connection.is_open

    @property
    def in_flight(self) -> int:
        """Requests without a reply yet, sent or not."""
        sent = 0 if self._connection is None else self._connection.in_flight
        return sent + len(self._held)

    def supports(self, api_key: int, version: int = 0) -> bool:
        """Whether the node said that it serves this version; not known before it is connected."""
        try:
            return self._versions.choose(api_key) >= version
        except ApiError:
            return False

    def send(
        self, request: Any, *, timeout_ms: int, at_most: int | None = None, read: Read | None = None
    ) -> asyncio.Future[Any]:
        """Send a request in the highest version that both speak (`at_most` bounds it). A function may stand
        in its place: it is given the node's versions, and makes the request."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        held = _Held(request, timeout_ms, at_most, read, answer)
        if self._closed:
            answer.set_exception(ConnectionError("the way to the node is closed"))
        elif self.is_connected and self._address == self._resolve():
            self._send_now(held)
        else:
            self._held.append(held)
            self._connect()
        return answer

    def reset(self) -> None:
        """Forget the pause after failures: there is reason to believe that the node is back."""
        self._failures = 0
        self._not_before_ms = 0.0

    def close(self) -> None:
        """Fail whatever waits, and send nothing more."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        if self._connection is not None:
            self._connection.close()
        self._fail_held(ConnectionError("the way to the node was closed"))

    def _send_now(self, held: _Held) -> None:
        assert self._connection is not None
        try:
            request = held.request(self._versions) if callable(held.request) else held.request
            api_key = schema_of(type(request)).api_key
            assert api_key is not None, f"{type(request).__name__} is no request"
            version = self._versions.choose(api_key, at_most=held.at_most)
            read = held.read
            asked = self._connection.ask(
                request,
                version,
                API[api_key].response,
                timeout_ms=held.timeout_ms,
                read=None if read is None else (lambda frame: read(frame, version)),
            )
        except (ApiError, InvalidBytesError) as error:
            held.answer.set_exception(error)
            return
        chain(asked, held.answer)

    def _connect(self) -> None:
        if self._connecting is None:
            self._connecting = self._loop.create_task(self._make_connection())
            self._connecting.add_done_callback(self._made)

    def _made(self, task: asyncio.Task[None]) -> None:
        self._connecting = None
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or self._closed:
            return
        if error is None and not self.is_connected:
            error = ConnectionError("the node hung up at once")
        if error is None:
            self._failures = 0
            while self._held:
                held = self._held.popleft()
                if not held.answer.done():
                    self._send_now(held)
        else:
            self._failures += 1
            self._not_before_ms = self._clock.monotonic_ms() + self._backoff.wait_ms(self._failures)
            self._fail_held(error)

    async def _make_connection(self) -> None:
        """Connect and settle the versions; ConnectionError, however that fails."""
        pause_ms = self._not_before_ms - self._clock.monotonic_ms()
        if pause_ms > 0:
            await asyncio.sleep(pause_ms / 1000)
        address = self._resolve()
        if address is None:
            raise ConnectionError("it is not known where the node listens")
        former, self._connection = self._connection, None
        if former is not None:
            former.close("the node listens elsewhere now")
        text = address_text(*address)
        try:
            connection = await self._open(address)
            try:
                response = await ask_versions(connection, timeout_ms=self._setup_ms)
            except BaseException:
                connection.close()
                raise
        except (OSError, InvalidBytesError, ApiError) as error:
            kind = type(error) if isinstance(error, ConnectionError) else ConnectionError
            raise kind(f"no connection to the node at {text}: {error}") from error
        if response.error_code != ErrorCode.NONE:
            connection.close()
            raise ConnectionError(f"the node at {text} refuses with error {response.error_code}")
        self._versions = VersionTable(text, response.api_keys)
        self._connection, self._address = connection, address

    async def _open(self, address: Address) -> ClientConnection:
        failure: OSError = ConnectionError("no address to try")
        for host in hosts_of(address[0]):
            try:
                return await connect(
                    self._loop,
                    self._network,
                    host,
                    address[1],
                    memory=self._memory,
                    client_id=self._client_id,
                    timeout_ms=self._setup_ms,
                    on_close=self._lost,
                    channel_builder=self._channel_builder,
                    server_name=address[0],
                    serving=self._serving,
                )
            except TlsError:
                raise
            except OSError as error:
                failure = error
        raise failure

    def _lost(self, reason: str) -> None:
        """A connection ended; one that never got through to its versions was not up."""
        was_up = self._connection is not None and not self._connection.is_open
        if was_up:
            self._connection = None
        if was_up and not self._closed and self._on_lost is not None:
            self._on_lost(reason)

    def _fail_held(self, error: BaseException) -> None:
        held, self._held = self._held, deque()
        for one in held:
            if not one.answer.done():
                one.answer.set_exception(error)
