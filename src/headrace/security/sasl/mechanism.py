"""What all mechanisms share: the two sides of an exchange, and how it fails.

A failure has two texts. What the client is told is the mechanism's own sentence only where that gives nothing
away; for everything else it is one sentence for all reasons, as in Kafka, because the reason may be half of a
secret. The reason itself is for this side's log, and has no secrets either.
"""

from typing import Final, Protocol

PLAIN: Final = "PLAIN"
SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"
OAUTHBEARER: Final = "OAUTHBEARER"
GSSAPI: Final = "GSSAPI"
MECHANISMS: Final = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER, GSSAPI)


class SaslError(Exception):
    """An exchange has failed. `told` is what the other side may hear; empty where it must not hear why."""

    def __init__(self, reason: str, *, told: str = "") -> None:
        super().__init__(reason)
        self.told = told


def refused(sentence: str) -> SaslError:
    """A failure whose reason the client may know (Kafka's SaslAuthenticationException)."""
    return SaslError(sentence, told=sentence)


class SaslServer(Protocol):
    """The side that asks who the other one is."""

    is_complete: bool
    authorization_id: str
    """Who it is, once that is proven."""
    expires_at_ms: int | None
    """When what it was proven with ends, by the wall clock; None where it has no end."""
    is_token: bool
    """Whether it was proven by a delegation token, with which no further token can be had."""

    def evaluate(self, response: bytes) -> bytes:
        """The next challenge; SaslError where the exchange has failed."""
        ...


class SaslClient(Protocol):
    """The side that proves who it is."""

    is_complete: bool

    def first(self) -> bytes:
        """What the exchange begins with."""
        ...

    def evaluate(self, challenge: bytes) -> bytes | None:
        """What to send next, None where nothing is; SaslError where the other side is not to be trusted."""
        ...
