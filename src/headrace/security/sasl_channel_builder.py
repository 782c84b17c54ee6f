"""SASL as a stage of connections (SASL_PLAINTEXT, SASL_SSL): the client's half of a login.

What is between socket and frames is for the builder it is put around (plain text or TLS). A connection that
is open proves who it is before anything else is asked: SaslHandshake v1, then SaslAuthenticate v1 until the
mechanism is through; brokers know both since Kafka 2.2. Where the broker says how long the session lasts
(KIP-368), the client logs in again when most of that is over: whatever is asked meanwhile waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Final, Protocol

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.security.sasl.mechanism import SaslClient, SaslError
from headrace.wire.schemas.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from headrace.wire.schemas.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

logger = logging.getLogger(__name__)

VERSION: Final = 1
STEPS_MAX: Final = 10
"""Of an exchange: a broker that asks for more is none."""

TIMEOUT_MS: Final = 20_000
"""For each reply: a broker lets who failed wait for connection.failed.authentication.delay.ms."""

AGAIN_AFTER: Final = (0.85, 0.95)
"""Of a session's time, after which the client logs in again; by chance, so that not all do at once."""


class LoginConnection(Protocol):
    """What is needed of a client's connection."""

    @property
    def is_open(self) -> bool: ...

    def ask(
        self, message: object, version: int, response: type[Any], *, timeout_ms: int = ...
    ) -> asyncio.Future[Any]: ...

    def hold_requests(self) -> None:
        """What is asked from now on waits; what is asked by `ask_now` does not."""
        ...

    def ask_now(
        self, message: object, version: int, response: type[Any], *, timeout_ms: int = ...
    ) -> asyncio.Future[Any]: ...

    def release_requests(self) -> None: ...

    def close(self, reason: str = ...) -> None: ...


class SocketBuilder(Protocol):
    """The builder of what is below SASL."""

    def server_socket(self, socket: Any) -> Any: ...

    def client_socket(self, socket: Any, host: str) -> Any: ...

    def principal_of(self, socket: Any) -> str: ...


NewClient = Callable[[str], Awaitable[SaslClient]]
"""Begins an exchange with a host; what it needs for that may have to be fetched (a token, a ticket)."""


class SaslChannelBuilder:
    """Logs in by `mechanism`, over what `below` builds."""

    def __init__(self, below: SocketBuilder, mechanism: str, new_client: NewClient, rng: Random) -> None:
        self._below = below
        self._mechanism = mechanism
        self._new_client = new_client
        self._rng = rng
        self._again: set[asyncio.Task[None]] = set()

    def server_socket(self, socket: Any) -> Any:
        return self._below.server_socket(socket)

    def client_socket(self, socket: Any, host: str) -> Any:
        return self._below.client_socket(socket, host)

    def principal_of(self, socket: Any) -> str:
        return self._below.principal_of(socket)

    async def authenticate(self, connection: LoginConnection, host: str) -> None:
        """ApiError where the broker refuses, or is not the one that it says; OSError where it is gone."""
        lifetime_ms = await self._exchange(connection, host)
        self._plan(connection, host, lifetime_ms)

    def _plan(self, connection: LoginConnection, host: str, lifetime_ms: int) -> None:
        if lifetime_ms <= 0:
            return
        after_s = lifetime_ms / 1000 * self._rng.uniform(*AGAIN_AFTER)
        asyncio.get_running_loop().call_later(after_s, self._log_in_again, connection, host)

    def _log_in_again(self, connection: LoginConnection, host: str) -> None:
        if connection.is_open:
            task = asyncio.get_running_loop().create_task(self._authenticate_again(connection, host))
            self._again.add(task)
            task.add_done_callback(self._again.discard)

    async def _authenticate_again(self, connection: LoginConnection, host: str) -> None:
        connection.hold_requests()
        try:
            self._plan(connection, host, await self._exchange(connection, host))
            connection.release_requests()
        except (OSError, ApiError) as error:
            if connection.is_open:
                logger.warning("%r: logging in again failed, a new connection is made: %s", connection, error)
                connection.close(f"logging in again failed: {error}")

    async def _exchange(self, connection: LoginConnection, host: str) -> int:
        """Prove who this is; milliseconds until that must be done again, 0 for never."""
        try:
            client = await self._new_client(host)
            await self._shake_hands(connection)
            return await _prove(connection, client)
        except SaslError as error:
            raise ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, f"{self._mechanism}: {error}") from None

    async def _shake_hands(self, connection: LoginConnection) -> None:
        asked = SaslHandshakeRequest(self._mechanism)
        reply = await connection.ask_now(asked, VERSION, SaslHandshakeResponse, timeout_ms=TIMEOUT_MS)
        if reply.error_code:
            offered = ", ".join(reply.mechanisms) or "no mechanism"
            raise ApiError(
                ErrorCode(reply.error_code),
                f"the broker does not take SASL mechanism {self._mechanism}: it offers {offered}",
            )


async def _prove(connection: LoginConnection, client: SaslClient) -> int:
    token: bytes | None = client.first()
    for _ in range(STEPS_MAX):
        assert token is not None
        asked = SaslAuthenticateRequest(token)
        reply = await connection.ask_now(asked, VERSION, SaslAuthenticateResponse, timeout_ms=TIMEOUT_MS)
        if reply.error_code:
            raise ApiError(ErrorCode(reply.error_code), reply.error_message or "the broker refuses the login")
        token = client.evaluate(bytes(reply.auth_bytes))
        if client.is_complete:
            return int(reply.session_lifetime_ms)
    raise SaslError(f"the login is not through after {STEPS_MAX} steps")
