"""The steps of GSSAPI behind Kerberos' own tokens, over contexts that only say whether a token is right."""

import pytest

from headrace.security.sasl.gssapi import GssapiClient, GssapiServer, GssError
from headrace.security.sasl.mechanism import SaslError

NO_LAYER = bytes((1, 0, 0, 0))


class Context:
    """Takes `tokens` one after the other, and gives the answers beside them; signing is writing "signed"."""

    peer = "alice@EXAMPLE.COM"

    def __init__(self, *tokens: tuple[bytes, bytes]) -> None:
        self._tokens = list(tokens)
        self.is_established = False

    def step(self, token: bytes) -> bytes:
        expected, answer = self._tokens.pop(0)
        if token != expected:
            raise GssError("Invalid token was supplied")
        self.is_established = not self._tokens
        return answer

    def wrap(self, data: bytes) -> bytes:
        return b"signed" + data

    def unwrap(self, data: bytes) -> bytes:
        if not data.startswith(b"signed"):
            raise GssError("A token had an invalid Message Integrity Check (MIC)")
        return data.removeprefix(b"signed")


def user_of(principal: str) -> str:
    return principal.partition("@")[0]


def mutual() -> GssapiServer:
    return GssapiServer(Context((b"AP-REQ", b"AP-REP")), user_of)


def offered() -> GssapiServer:
    server = mutual()
    assert server.evaluate(b"AP-REQ") == b"AP-REP"
    assert server.evaluate(b"") == b"signed" + NO_LAYER
    assert not server.is_complete
    assert not server.authorization_id
    return server


def test_a_login_where_both_prove_who_they_are() -> None:
    server = offered()
    assert server.evaluate(b"signed" + NO_LAYER) == b""
    assert server.is_complete
    assert server.authorization_id == "alice"


def test_a_login_of_a_client_that_asks_for_no_proof() -> None:
    """Java's, and sarama's: the offer comes in place of the service's token."""
    server = GssapiServer(Context((b"AP-REQ", b"")), user_of)
    assert server.evaluate(b"AP-REQ") == b"signed" + NO_LAYER
    assert server.evaluate(b"signed" + NO_LAYER) == b""
    assert server.authorization_id == "alice"


@pytest.mark.parametrize("asked", [b"admin", b"kafka@localhost", b"alice@EXAMPLE.COM", b"\xff"])
def test_an_authorisation_id_counts_for_nothing(asked: bytes) -> None:
    """CVE-2017-12610's rule: who the ticket names is the user, whoever else is asked for."""
    server = offered()
    server.evaluate(b"signed" + NO_LAYER + asked)
    assert server.authorization_id == "alice"


@pytest.mark.parametrize("layers", [0, 2, 3, 4, 7, 255])
def test_layers_that_were_not_offered_are_refused(layers: int) -> None:
    server = offered()
    with pytest.raises(SaslError, match="layer"):
        server.evaluate(b"signed" + bytes((layers, 0, 0, 0)))
    assert not server.is_complete


@pytest.mark.parametrize("choice", [b"", b"signed", b"signed\x01", NO_LAYER, b"unsigned" + NO_LAYER])
def test_a_choice_that_is_not_signed_or_not_whole_is_refused(choice: bytes) -> None:
    server = offered()
    with pytest.raises(SaslError) as failure:
        server.evaluate(choice)
    assert not failure.value.told, "the client hears one sentence for all reasons"
    assert not server.is_complete


def test_steps_cannot_be_left_out() -> None:
    with pytest.raises(SaslError):
        mutual().evaluate(b"signed" + NO_LAYER)
    server = mutual()
    server.evaluate(b"AP-REQ")
    with pytest.raises(SaslError):
        server.evaluate(b"signed" + NO_LAYER)


def test_a_ticket_of_somebody_who_is_no_user_here_fails_at_the_end() -> None:
    def nobody(principal: str) -> str:
        raise SaslError(f"no rule fits {principal}")

    server = GssapiServer(Context((b"AP-REQ", b"")), nobody)
    server.evaluate(b"AP-REQ")
    with pytest.raises(SaslError):
        server.evaluate(b"signed" + NO_LAYER)
    assert not server.is_complete


def client() -> GssapiClient:
    return GssapiClient(Context((b"AP-REP", b"")), b"AP-REQ")


def test_the_clients_half() -> None:
    asks = client()
    assert asks.first() == b"AP-REQ"
    assert asks.evaluate(b"AP-REP") == b""
    # Java's brokers name a size, which counts for nothing without a layer.
    assert asks.evaluate(b"signed" + bytes((1, 1, 0, 0))) == b"signed" + NO_LAYER
    assert not asks.is_complete
    assert asks.evaluate(b"") is None
    assert asks.is_complete


@pytest.mark.parametrize(
    "offer", [b"", b"unsigned" + NO_LAYER, b"signed\x01", b"signed" + bytes((6, 0, 0, 0)), NO_LAYER]
)
def test_a_client_believes_no_other_offer(offer: bytes) -> None:
    asks = client()
    asks.evaluate(b"AP-REP")
    with pytest.raises(SaslError):
        asks.evaluate(offer)
    assert not asks.is_complete


def test_a_service_that_cannot_prove_who_it_is_is_left() -> None:
    with pytest.raises(SaslError):
        client().evaluate(b"signed" + NO_LAYER)
