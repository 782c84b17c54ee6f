"""The login of one connection of a SASL listener: SaslHandshake, SaslAuthenticate, and what comes of them.

    HANDSHAKE ──► AUTHENTICATE ──► COMPLETE ──► EXPIRED
                                       ▲            │ SaslHandshake again
                                       └────────────┘

Until it is through, a client may ask for ApiVersions and its login only, a few times, in small frames and
within a time limit. After SaslHandshake v0 frames are the mechanism's bare tokens (before KIP-152).

A login that fails is answered after a pause (connection.failed.authentication.delay.ms), in which nothing
more is read of it, and its connection closed: guessing is slow. What the client is told gives no reason away.

A session has an end where connections.max.reauth.ms or what the client logged in with says so (KIP-368). The
client is told when, and logs in again on the same connection, as the same user and by the same mechanism.
Where it has not, its next request closes the connection.
"""

from __future__ import annotations

import logging
import struct
from asyncio import AbstractEventLoop, Future, TimerHandle
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import InvalidBytesError
from headrace.security.sasl.mechanism import SaslError, SaslServer, refused
from headrace.telemetry.limited_log import LimitedLog
from headrace.wire.apis import ApiKey
from headrace.wire.schemas.sasl_authenticate import SaslAuthenticateResponse
from headrace.wire.schemas.sasl_handshake import SaslHandshakeResponse

if TYPE_CHECKING:
    from headrace.server.context import Peer

T = TypeVar("T")

logger = logging.getLogger(__name__)

BEFORE_AUTHENTICATION: Final = frozenset(
    {ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS, ApiKey.SASL_AUTHENTICATE}
)
"""What may be asked before the client has proven who it is."""

AUTHENTICATION_S: Final = 30.0
"""How long a login may take. Kafka has no such limit but connections.max.idle.ms; a slow provider of tokens
is asked by the client before it connects, so what is left is some replies' way."""

REQUESTS_MAX: Final = 20
"""Requests of one login: no mechanism needs more than six."""

STRANGERS_MAX: Final = 1000
"""Logins under way at one listener: where more come, who began first and is not through is closed. A cluster
whose clients all come back at once has fewer, for a login takes milliseconds."""

REAUTHENTICATION_PAUSE_S: Final = 1.0
"""A client logs in again once in a second at most, as in Kafka."""


class SaslState(Enum):
    HANDSHAKE = auto()
    AUTHENTICATE = auto()
    COMPLETE = auto()
    EXPIRED = auto()
    FAILED = auto()


class SaslListener:
    """What all connections of a listener share. `mechanisms` make an exchange of each mechanism that is
    enabled, `reauth_ms` are sessions' lengths by mechanism, 0 for no end; `now_ms` is the wall clock.
    `on_raw_failure` is told the host and the mechanism of a login by bare tokens that failed."""

    def __init__(
        self,
        name: str,
        mechanisms: Mapping[str, Callable[[], SaslServer]],
        *,
        loop: AbstractEventLoop,
        now_ms: Callable[[], int],
        reauth_ms: Mapping[str, int],
        failed_delay_ms: int,
        frame_bytes_max: int,
        on_raw_failure: Callable[[str, str], None] = lambda host, mechanism: None,
    ) -> None:
        self.name = name
        self.mechanisms = mechanisms
        self.loop = loop
        self.now_ms = now_ms
        self.reauth_ms = reauth_ms
        self.failed_delay_ms = failed_delay_ms
        self.frame_bytes_max = frame_bytes_max
        self.on_raw_failure = on_raw_failure
        self.failures = LimitedLog(loop.time, logger, logging.INFO)
        self.successful = self.failed = 0  # logins so far
        self._strangers: dict[SaslServerAuthenticator, None] = {}  # in the order in which they came

    def note_stranger(self, login: SaslServerAuthenticator) -> None:
        """A login begins; too many of them are ended, the oldest first."""
        self._strangers[login] = None
        if len(self._strangers) > STRANGERS_MAX:
            next(iter(self._strangers)).give_up("too many have not logged in")

    def forget_stranger(self, login: SaslServerAuthenticator) -> None:
        self._strangers.pop(login, None)

    def new_exchange(self, peer: Peer) -> SaslServerAuthenticator:
        return SaslServerAuthenticator(self, peer)


class SaslServerAuthenticator:
    """One connection's login, for as long as the connection lasts."""

    def __init__(self, listener: SaslListener, peer: Peer) -> None:
        self._listener = listener
        self._peer = peer
        self._state = SaslState.HANDSHAKE
        self._server: SaslServer | None = None
        self._mechanism = ""
        self._is_raw = False
        self._refusal = ""  # of the next step, whatever it brings
        self._requests = 0
        self._has_end = False
        self._is_again = False  # under way on a connection that was logged in before
        self._began_again_at = -REAUTHENTICATION_PAUSE_S
        self._frame_bytes_max = peer.connection.frame_bytes_max
        self._timer: TimerHandle | None = None
        self.is_token = False
        self._become_stranger()

    def _become_stranger(self) -> None:
        self._peer.authenticated = False
        self._peer.connection.frame_bytes_max = self._listener.frame_bytes_max
        self._requests = 0
        self._set_timer(AUTHENTICATION_S, lambda: self.give_up(f"not within {AUTHENTICATION_S:.0f} s"))
        self._listener.note_stranger(self)

    def _set_timer(self, seconds: float, then: Callable[[], None]) -> None:
        self.close()
        self._timer = self._listener.loop.call_later(seconds, then)

    def close(self) -> None:
        """The connection is closed, or the login over."""
        self._listener.forget_stranger(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def give_up(self, reason: str) -> None:
        """It has not logged in, and its connection is closed."""
        self.close()
        self._listener.failures.write("closing %s: it has not logged in (%s)", self._peer, reason)
        self._peer.close(f"it has not logged in: {reason}")

    # What comes of who is not logged in

    @property
    def takes_raw_token(self) -> bool:
        """Whether the next frame is a mechanism's token, without a request around it."""
        return self._is_raw and self._state is SaslState.AUTHENTICATE

    def admit(self, api_key: int) -> None:
        """InvalidBytesError where this may not be asked now."""
        self._requests += 1
        if self._state is SaslState.EXPIRED and api_key != ApiKey.SASL_HANDSHAKE:
            raise InvalidBytesError("its session is over, and it has not logged in again")
        if api_key not in BEFORE_AUTHENTICATION:
            raise InvalidBytesError(f"API {api_key} was asked for before authentication")
        if self._requests > REQUESTS_MAX:
            raise InvalidBytesError(f"it asked {REQUESTS_MAX} times without having logged in")

    def handshake(self, mechanism: str, *, is_raw: bool) -> SaslHandshakeResponse | Future[Any]:
        """SaslHandshake: which mechanism it shall be."""
        if not self._may_begin():
            return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)
        new_server = self._listener.mechanisms.get(mechanism)
        offered = list(self._listener.mechanisms)
        if new_server is None:
            response = SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, offered)
            return self._fail(f"it wants {mechanism[:40]!r}, enabled are {', '.join(offered)}", response)
        if self._is_again and mechanism != self._mechanism:
            self._refusal = (
                f"SASL mechanism '{mechanism}' requested by client is not supported for re-authentication of "
                f"mechanism '{self._mechanism}'"
            )
        self._server, self._mechanism, self._is_raw = new_server(), mechanism, is_raw
        self._state = SaslState.AUTHENTICATE
        return SaslHandshakeResponse(ErrorCode.NONE, offered)

    def _may_begin(self) -> bool:
        if self._state is SaslState.HANDSHAKE:
            return True
        now = self._listener.loop.time()
        is_over = self._state in (SaslState.COMPLETE, SaslState.EXPIRED)
        if not is_over or not self._has_end or now - self._began_again_at < REAUTHENTICATION_PAUSE_S:
            return False
        self._began_again_at = now
        self._is_again = True
        self._become_stranger()
        return True

    def authenticate(self, token: bytes) -> SaslAuthenticateResponse | Future[Any]:
        """SaslAuthenticate: one step of the exchange."""
        if self._state is not SaslState.AUTHENTICATE or self._is_raw:
            return self._out_of_order()
        try:
            challenge = self._step(token)
        except SaslError as error:
            response = SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, self._told(error))
            return self._fail(str(error), response)
        lifetime_ms = self._begin_session() if self._is_through else 0
        return SaslAuthenticateResponse(ErrorCode.NONE, None, challenge, lifetime_ms)

    def _out_of_order(self) -> SaslAuthenticateResponse | Future[Any]:
        if self._state is SaslState.COMPLETE:
            message = "SaslAuthenticate request received after successful authentication"
            return SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, message)
        response = SaslAuthenticateResponse(
            ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate comes after SaslHandshake: name a mechanism first"
        )
        return self._fail("it sent SaslAuthenticate before SaslHandshake", response)

    def take_raw_token(self, token: bytes) -> None:
        """One step without requests around it: the reply is a token too, or none and the end."""
        connection = self._peer.connection
        self._requests += 1
        try:
            if self._requests > REQUESTS_MAX:
                raise SaslError(f"it sent {REQUESTS_MAX} tokens without having logged in")
            challenge = self._step(token)
        except SaslError as error:
            # No request fails here of which anybody else could tell.
            self._listener.on_raw_failure(self._peer.host, self._mechanism)
            slot = connection.begin_reply()
            self._fail(str(error), None).add_done_callback(lambda _: slot.send(()))
            return
        connection.send((struct.pack(">i", len(challenge)) + challenge,))
        if self._is_through:
            self._begin_session()

    @property
    def _is_through(self) -> bool:
        return self._state is SaslState.COMPLETE

    def _step(self, token: bytes) -> bytes:
        server = self._server
        assert server is not None
        if self._refusal:
            raise refused(self._refusal)
        challenge = server.evaluate(token)
        if server.is_complete:
            principal = f"User:{server.authorization_id}"
            if self._is_again and principal != self._peer.principal:
                raise _changed(self._peer.principal, principal)
            self._peer.principal = principal
            self.is_token = server.is_token
            self._state = SaslState.COMPLETE
        return challenge

    # What comes of it

    def _told(self, error: SaslError) -> str:
        again = "re-authentication" if self._is_again else "authentication"
        return error.told or (
            f"Authentication failed during {again} due to invalid credentials with SASL mechanism "
            f"{self._mechanism}"
        )

    def _fail(self, reason: str, response: T) -> Future[T]:
        """The response in a while, and the end of the connection with it."""
        listener, connection = self._listener, self._peer.connection
        self._state = SaslState.FAILED
        self.close()
        listener.failed += 1
        listener.failures.write("%s:%d failed to log in at listener %s (%s): %s", *self._peer_address, reason)
        answer: Future[T] = listener.loop.create_future()

        def give() -> None:
            if not answer.done():
                answer.set_result(response)

        listener.loop.call_later(listener.failed_delay_ms / 1000, give)
        connection.finish()
        return answer

    @property
    def _peer_address(self) -> tuple[str, int, str, str]:
        return self._peer.host, self._peer.port, self._listener.name, self._mechanism or "no mechanism yet"

    def _begin_session(self) -> int:
        """The login is through: serve whatever is asked. How long it lasts, 0 where it has no end."""
        listener, server = self._listener, self._server
        assert server is not None
        ends_in = [each for each in (listener.reauth_ms.get(self._mechanism, 0),) if each > 0]
        if server.expires_at_ms is not None:
            ends_in.append(max(server.expires_at_ms - listener.now_ms(), 0))
        listener.successful += 1
        self._server = None
        self._is_again = False
        self._has_end = bool(ends_in)
        self._peer.authenticated = True
        self._peer.connection.frame_bytes_max = self._frame_bytes_max
        if not ends_in:
            self.close()
            return 0
        self._set_timer(min(ends_in) / 1000, self._expire)
        return min(ends_in)

    def _expire(self) -> None:
        """Requests under way are answered; a new one must be a login."""
        self._timer = None
        self._state = SaslState.EXPIRED
        self._peer.authenticated = False
        self._peer.connection.frame_bytes_max = self._listener.frame_bytes_max


def _changed(before: str, after: str) -> SaslError:
    was, now = (each.replace(":", ".", 1) for each in (before, after))
    return refused(f"Cannot change principals during re-authentication from {was}: {now}")
