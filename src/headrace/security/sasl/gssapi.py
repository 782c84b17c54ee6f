"""GSSAPI (RFC 4752): a ticket of Kerberos says who a client is.

    client                       server
    AP-REQ ────────────────────►          a ticket for kafka/HOST
           ◄──────────────────── AP-REP   where the client asked for it
    empty  ────────────────────►
           ◄──────────────────── signed: which layers there may be behind the login, and their size
    signed: the one that it is, and an authorisation id ────►

The one layer is none: what is encrypted is encrypted by TLS, as in Kafka. The user is who the ticket names.
An authorisation id counts for nothing, as in Kafka: so nobody acts as somebody else, and clients may send
there what they do (kafka-python and aiokafka name the service).

The exchange itself is for a context to do (`gss_library.py`).
"""

from collections.abc import Callable
from typing import Final, Protocol

from headrace.security.sasl.mechanism import SaslError

NO_LAYER: Final = 1
_OFFER: Final = bytes((NO_LAYER, 0, 0, 0))


class GssError(Exception):
    """Kerberos has refused, and says why; there are no secrets in its words."""


class GssContext(Protocol):
    """An exchange of Kerberos' tokens; its methods raise GssError."""

    is_established: bool

    def step(self, token: bytes) -> bytes: ...

    def wrap(self, data: bytes) -> bytes: ...

    def unwrap(self, data: bytes) -> bytes: ...


class GssServerContext(GssContext, Protocol):
    """The service's side."""

    peer: str


class GssapiServer:
    """`user_of` makes a user's name of a principal's, or raises SaslError."""

    is_token = False

    def __init__(self, context: GssServerContext, user_of: Callable[[str], str]) -> None:
        self._context = context
        self._user_of = user_of
        self._has_offered = False
        self.is_complete = False
        self.authorization_id = ""
        self.expires_at_ms: int | None = None

    def evaluate(self, response: bytes) -> bytes:
        try:
            return self._next(response)
        except GssError as error:
            raise SaslError(str(error)) from None

    def _next(self, response: bytes) -> bytes:
        context = self._context
        if self._has_offered:
            return self._finish(context.unwrap(response))
        if not context.is_established:
            answer = context.step(response)
            if answer or not context.is_established:
                return answer
        elif response:
            raise SaslError("the client goes on where its ticket was taken")
        self._has_offered = True
        return context.wrap(_OFFER)

    def _finish(self, choice: bytes) -> bytes:
        if len(choice) < len(_OFFER) or choice[0] != NO_LAYER:
            raise SaslError("the client chose a layer that was not offered")
        self.authorization_id = self._user_of(self._context.peer)
        self.is_complete = True
        return b""


class GssapiClient:
    """`first` is the context's first token: to have it the KDC was asked."""

    def __init__(self, context: GssContext, first: bytes) -> None:
        self._context = context
        self._first = first
        self._has_chosen = False
        self.is_complete = False

    def first(self) -> bytes:
        return self._first

    def evaluate(self, challenge: bytes) -> bytes | None:
        if self._has_chosen:
            self.is_complete = True
            return None
        try:
            return self._next(challenge)
        except GssError as error:
            raise SaslError(str(error)) from None

    def _next(self, challenge: bytes) -> bytes:
        if not self._context.is_established:
            return self._context.step(challenge)
        offer = self._context.unwrap(challenge)
        if len(offer) != len(_OFFER) or not offer[0] & NO_LAYER:
            raise SaslError("the broker wants a layer behind the login, and Kafka has none")
        self._has_chosen = True
        return self._context.wrap(_OFFER)
