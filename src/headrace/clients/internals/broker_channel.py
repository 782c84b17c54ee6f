"""A way to one broker: connected when it is needed, again after it was lost, with a pause that grows.

The first exchange on a connection asks for the broker's versions (ApiVersions), so that every later request
goes out in the highest version that both sides speak (`transport/versions.py`). Whoever asks while a
connection is being made waits for the same one.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from headrace.base.errors import ApiError, InvalidBytesError
from headrace.clients.errors import (
    AuthenticationError,
    RefusedError,
    TimedOutError,
    UnreachableError,
    UnsupportedError,
)
from headrace.clients.internals.environment import ClientEnvironment
from headrace.telemetry.outage import Outage
from headrace.transport.addresses import address_text, hosts_of
from headrace.transport.backoff import Backoff
from headrace.transport.channel_builder import PLAINTEXT, ChannelBuilder
from headrace.transport.client_connection import ClientConnection, connect
from headrace.transport.receive_memory import ReceiveMemory
from headrace.transport.tls import TlsError
from headrace.transport.versions import VersionTable, ask_versions
from headrace.wire.apis import API
from headrace.wire.notation import schema_of
from headrace.wire.plan import UnsupportedVersion

log = logging.getLogger(__name__)


class BrokerChannel:
    """One connection to one address, with its versions and its back-off."""

    def __init__(
        self,
        environment: ClientEnvironment,
        host: str,
        port: int,
        *,
        memory: ReceiveMemory,
        client_id: str,
        backoff: Backoff,
        setup_ms: int,
        request_ms: int,
        channel_builder: ChannelBuilder = PLAINTEXT,
        on_connected: "Callable[[BrokerChannel], None]" = lambda channel: None,
    ) -> None:
        self._on_connected = on_connected
        self.address = address_text(host, port)
        self._environment = environment
        self._host, self._port = host, port
        self._memory = memory
        self._client_id = client_id
        self._backoff = backoff
        self._setup_ms = setup_ms
        self._request_ms = request_ms
        self._channel_builder = channel_builder
        self._connection: ClientConnection | None = None
        self._connecting: asyncio.Task[ClientConnection] | None = None
        self._failures = 0
        self._outage = Outage(environment.loop.time, log, f"the broker at {self.address}")
        self._not_before_ms = 0.0
        self.versions = VersionTable(self.address, ())

    @property
    def is_ready(self) -> bool:
        """Whether a request can leave at once."""
        return self._connection is not None and self._connection.is_open

    @property
    def in_flight(self) -> int:
        return self._connection.in_flight if self._connection is not None else 0

    @property
    def throttle_ms(self) -> float:
        """How long nothing can be sent, because a quota of the broker throttles this client (KIP-219)."""
        return self._connection.throttle_ms if self._connection is not None else 0.0

    @property
    def pause_ms(self) -> float:
        """How long until this may be tried again after a failure."""
        return max(0.0, self._not_before_ms - self._environment.now_ms())

    def close(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
        if self._connection is not None:
            self._connection.close()

    async def ready(self) -> ClientConnection:
        """The connection, made where there is none; UnreachableError or TimedOutError where that fails."""
        if self._connection is not None and self._connection.is_open:
            return self._connection
        if self._connecting is None:
            self._connecting = self._environment.loop.create_task(self._reconnect())
            self._connecting.add_done_callback(self._connected)
        return await asyncio.shield(self._connecting)

    async def ask(self, request: Any, *, timeout_ms: int | None = None, at_most: int | None = None) -> Any:
        """A broker's answer. UnreachableError and TimedOutError leave open whether it was carried out."""
        connection = await self.ready()
        api_key, version = self.choose(request, at_most)
        wait_ms = self._request_ms if timeout_ms is None else timeout_ms
        started = self._environment.now_ms()
        try:
            return await connection.ask(request, version, API[api_key].response, timeout_ms=wait_ms)
        except UnsupportedVersion as error:
            raise UnsupportedError(f"the broker at {self.address} is too old for this: {error}") from error
        except (ConnectionError, InvalidBytesError) as error:
            raise self.lost(
                error, API[api_key].name, self._environment.now_ms() - started >= wait_ms
            ) from error

    def ask_now(
        self,
        request: Any,
        *,
        timeout_ms: int,
        at_most: int | None = None,
        read: Callable[[memoryview, int], Any] | None = None,
    ) -> "asyncio.Future[Any]":
        """The same on a connection that is ready, without a task; the future fails with ConnectionError."""
        assert self._connection is not None
        api_key, version = self.choose(request, at_most)
        reading = None if read is None else (lambda frame: read(frame, version))
        return self._connection.ask(
            request, version, API[api_key].response, timeout_ms=timeout_ms, read=reading
        )

    def tell(self, request: Any, *, at_most: int | None = None) -> None:
        """Send what gets no answer, on a connection that is ready."""
        assert self._connection is not None
        self._connection.tell(request, self.choose(request, at_most)[1])

    def choose(self, request: Any, at_most: int | None) -> tuple[int, int]:
        """The key and version in which a request goes out."""
        api_key = schema_of(type(request)).api_key
        assert api_key is not None, f"{type(request).__name__} is no request"
        try:
            return api_key, self.versions.choose(api_key, at_most=at_most)
        except ApiError as error:
            raise UnsupportedError(error.message) from error

    def lost(self, error: Exception, what: str, is_late: bool) -> UnreachableError | TimedOutError:
        """A failure of the connection, told to a person."""
        if isinstance(error, InvalidBytesError):
            return UnreachableError(f"the broker at {self.address} answered {what} with bad bytes: {error}")
        if is_late:
            return TimedOutError(f"the broker at {self.address} did not answer {what} in time")
        _, told, reason = str(error).partition("TLS: ")
        if told:
            return UnreachableError(f"the broker at {self.address} ended the connection: {told}{reason}")
        return UnreachableError(f"the broker at {self.address} closed the connection")

    # Connecting

    def _connected(self, task: "asyncio.Task[ClientConnection]") -> None:
        self._connecting = None
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._failures = 0
            self._outage.over()
            self._on_connected(self)
        else:
            self._failures += 1
            if self._failures > 1:  # whoever tries once only hears of it by the error
                self._outage.failed(error)
            self._not_before_ms = self._environment.now_ms() + self._backoff.wait_ms(self._failures)

    async def _reconnect(self) -> ClientConnection:
        if self.pause_ms:
            await asyncio.sleep(self.pause_ms / 1000)
        connection = await self._open()
        try:
            self.versions = await self._negotiate(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    async def _open(self) -> ClientConnection:
        failure: OSError | None = None
        for host in hosts_of(self._host):
            try:
                return await connect(
                    self._environment.loop,
                    self._environment.network,
                    host,
                    self._port,
                    memory=self._memory,
                    client_id=self._client_id,
                    timeout_ms=self._setup_ms,
                    channel_builder=self._channel_builder,
                    server_name=self._host,
                )
            except ApiError as error:
                who = f"logging in at the broker at {self.address} failed"
                raise AuthenticationError(error.code, who, error.message) from error
            except TimeoutError as error:
                raise TimedOutError(f"{self.address} does not answer: is the address right?") from error
            except TlsError as error:
                raise UnreachableError(f"no connection to {self.address}: {error}") from error
            except OSError as error:
                failure = error
        raise _unreachable(self.address, failure) from failure

    async def _negotiate(self, connection: ClientConnection) -> VersionTable:
        started = self._environment.now_ms()
        try:
            response = await ask_versions(connection, timeout_ms=self._request_ms)
        except InvalidBytesError as error:
            raise UnreachableError(
                f"what answers at {self.address} is not a Kafka broker ({error})"
            ) from error
        except ConnectionRefusedError as error:
            raise _unreachable(self.address, error) from error
        except ConnectionError as error:
            is_late = self._environment.now_ms() - started >= self._request_ms
            raise self.lost(error, "ApiVersions", is_late) from error
        if response.error_code:
            raise RefusedError(response.error_code, f"the broker at {self.address} refused the connection")
        return VersionTable(self.address, response.api_keys, response.finalized_features)


def _unreachable(address: str, error: OSError | None) -> UnreachableError:
    reason = error.strerror if error and error.strerror else str(error)
    # The resolver's own errors have negative numbers.
    unknown_name = error is not None and (error.errno or 0) < 0
    advice = "is a broker running there? `headrace start` starts one"
    if unknown_name:
        advice = "is the host's name right?"
    return UnreachableError(f"cannot connect to {address} ({reason}): {advice}")
