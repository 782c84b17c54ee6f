"""SaslHandshake: which mechanism, and on which listener at all."""

from types import SimpleNamespace

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.server.context import RequestContext
from headrace.server.handlers.sasl_handshake import handle
from headrace.wire.schemas.sasl_handshake import SaslHandshakeRequest


class Exchange:
    mechanisms = ("PLAIN", "SCRAM-SHA-256")

    def __init__(self):
        self.begun = None

    def begin(self, mechanism):
        if mechanism not in self.mechanisms:
            raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM)
        self.begun = mechanism


def ask(exchange, mechanism):
    return handle(
        RequestContext(17, 1, 1, "c", SimpleNamespace(sasl=exchange), None), SaslHandshakeRequest(mechanism)
    )


def test_a_mechanism_that_is_offered_is_begun():
    exchange = Exchange()
    response = ask(exchange, "PLAIN")
    assert (response.error_code, response.mechanisms) == (0, ["PLAIN", "SCRAM-SHA-256"])
    assert exchange.begun == "PLAIN"


def test_another_mechanism_gets_the_list_of_those_offered():
    exchange = Exchange()
    response = ask(exchange, "GSSAPI")
    assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert response.mechanisms == ["PLAIN", "SCRAM-SHA-256"]
    assert exchange.begun is None


def test_a_listener_without_sasl():
    response = ask(None, "PLAIN")
    assert (response.error_code, response.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
