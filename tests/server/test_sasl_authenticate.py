"""SaslAuthenticate: the steps of a login, and what comes of it."""

import logging
import struct
from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.metadata import MetadataRequest
from headrace.wire.schemas.sasl_authenticate import SaslAuthenticateRequest
from headrace.wire.schemas.sasl_handshake import SaslHandshakeRequest
from tests.server.node_world import NodeWorld, simulated
from tests.server.sasl_world import add_user, connect_sasl, log_in, plain, run_with_sasl, scram_login

REAUTH = {"connections.max.reauth.ms": "10000"}
METADATA = MetadataRequest(topics=[])


@simulated()
async def test_a_listener_without_sasl(world: NodeWorld) -> None:
    client = await world.connect()
    for version in (0, 1, 2):
        reply = await client.ask(SaslAuthenticateRequest(b"x"), version)
        assert reply.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert "PLAINTEXT" in reply.error_message


def principals(world: NodeWorld) -> set[str]:
    _, listener = world.node._listeners._open["SASL_PLAINTEXT"]
    return {connection.attached.principal for connection in listener.connections}


def test_plain() -> None:
    async def script(world: NodeWorld) -> None:
        client = await connect_sasl(world)
        reply = await log_in(client, "PLAIN", plain())
        assert (reply.error_code, reply.auth_bytes, reply.session_lifetime_ms) == (0, b"", 0)
        assert principals(world) == {"User:alice"}
        await client.ask(METADATA, 9)

    run_with_sasl(script)


@pytest.mark.parametrize(("mechanism", "number"), [("SCRAM-SHA-256", 1), ("SCRAM-SHA-512", 2)])
def test_scram_with_a_user_of_the_cluster(mechanism: str, number: int) -> None:
    async def script(world: NodeWorld) -> None:
        await add_user(await world.connect(), "carol", "carol-secret", number)
        client = await connect_sasl(world)
        reply = await log_in(client, mechanism, scram_login("carol", "carol-secret", mechanism))
        assert reply.error_code == 0
        assert principals(world) == {"User:carol"}

    run_with_sasl(script)


@pytest.mark.parametrize("delay_ms", [0, 100, 3000])
def test_a_wrong_password_is_answered_after_a_while_and_ends_the_connection(delay_ms: int) -> None:
    async def script(world: NodeWorld) -> None:
        client = await connect_sasl(world)
        began = world.now_ms()
        reply = await log_in(client, "PLAIN", plain("alice", "wrong"))
        assert reply.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert reply.error_message == "Authentication failed: Invalid username or password"
        assert world.now_ms() - began >= delay_ms
        await world.until(lambda: not client.is_open)

    run_with_sasl(script, {"connection.failed.authentication.delay.ms": str(delay_ms)})


def test_guesses_behind_a_wrong_one_are_not_read() -> None:
    async def script(world: NodeWorld) -> None:
        client = await connect_sasl(world)
        began = world.now_ms()
        client.ask(SaslHandshakeRequest("PLAIN"), 1)
        wrong = client.ask(SaslAuthenticateRequest(b"\0alice\0wrong"), 2)
        right = client.ask(SaslAuthenticateRequest(plain().first()), 2)
        assert (await wrong).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        with pytest.raises(ConnectionError):
            await right
        assert world.now_ms() - began >= 100

    run_with_sasl(script)


@pytest.mark.parametrize("user", ["alice", "nobody"])
def test_scram_tells_a_wrong_password_and_an_unknown_user_alike(user: str) -> None:
    async def script(world: NodeWorld) -> None:
        await add_user(await world.connect(), "alice", "alice-secret")
        client = await connect_sasl(world)
        reply = await log_in(client, "SCRAM-SHA-256", scram_login(user, "wrong"))
        assert reply.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert reply.error_message == (
            "Authentication failed during authentication due to invalid credentials with SASL mechanism "
            "SCRAM-SHA-256"
        )

    run_with_sasl(script)


def test_no_secret_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def script(world: NodeWorld) -> None:
        for password in ("alice-secret", "alice-sicret"):
            client = await connect_sasl(world)
            await log_in(client, "PLAIN", plain("alice", password))

    with caplog.at_level(logging.DEBUG):
        run_with_sasl(script)
    assert "failed to log in" in caplog.text
    assert "alice-s" not in caplog.text


def test_out_of_turn() -> None:
    async def script(world: NodeWorld) -> None:
        client = await connect_sasl(world)
        reply = await client.ask(SaslAuthenticateRequest(plain().first()), 2)
        assert reply.error_code == ErrorCode.ILLEGAL_SASL_STATE
        await world.until(lambda: not client.is_open)
        known = await connect_sasl(world)
        await log_in(known, "PLAIN", plain())
        reply = await known.ask(SaslAuthenticateRequest(plain().first()), 2)
        assert reply.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert known.is_open

    run_with_sasl(script)


def _raw(client: Any, token: bytes) -> Any:
    """A token without a request around it, and what is answered to it in the same form."""
    inner = client.connection
    answer = inner._loop.create_future()
    seen = inner._connection._on_frame

    def on_frame(connection: Any, frame: memoryview) -> None:
        inner._connection._on_frame = seen
        answer.set_result(bytes(frame))

    inner._connection._on_frame = on_frame
    inner._connection.send((struct.pack(">i", len(token)) + token,))
    return answer


def test_tokens_without_requests_after_handshake_v0() -> None:
    async def script(world: NodeWorld) -> None:
        await add_user(await world.connect(), "alice", "alice-secret")
        client = await connect_sasl(world)
        await client.ask(SaslHandshakeRequest("SCRAM-SHA-256"), 0)
        exchange = scram_login("alice", "alice-secret")
        final = exchange.evaluate(await _raw(client, exchange.first()))
        assert final is not None
        assert exchange.evaluate(await _raw(client, final)) is None
        await client.ask(METADATA, 9)
        assert principals(world) == {"User:alice"}

    run_with_sasl(script)


def test_a_wrong_token_without_requests_gets_no_answer() -> None:
    async def script(world: NodeWorld) -> None:
        client = await connect_sasl(world)
        await client.ask(SaslHandshakeRequest("PLAIN"), 0)
        began = world.now_ms()
        answer = _raw(client, b"\0alice\0wrong")
        await world.until(lambda: not client.is_open)
        assert not answer.done()
        assert world.now_ms() - began >= 100

    run_with_sasl(script)


def test_a_session_is_told_its_end_and_renewed_on_the_same_connection() -> None:
    async def script(world: NodeWorld) -> None:
        client = await connect_sasl(world)
        assert (await log_in(client, "PLAIN", plain())).session_lifetime_ms == 10_000
        for _ in range(3):
            await world.pass_time(8_000)
            await client.ask(METADATA, 9)
            assert (await log_in(client, "PLAIN", plain())).session_lifetime_ms == 10_000
        assert principals(world) == {"User:alice"}

    run_with_sasl(script, REAUTH)


def test_a_request_after_the_end_of_its_session_ends_the_connection() -> None:
    async def script(world: NodeWorld) -> None:
        client, late = await connect_sasl(world), await connect_sasl(world)
        await log_in(client, "PLAIN", plain())
        await log_in(late, "PLAIN", plain())
        await world.pass_time(10_500)
        assert client.is_open
        with pytest.raises(ConnectionError):
            await client.ask(METADATA, 9)
        assert (await log_in(late, "PLAIN", plain())).error_code == 0
        await late.ask(METADATA, 9)

    run_with_sasl(script, REAUTH)


def test_nobody_becomes_somebody_else_by_logging_in_again() -> None:
    async def script(world: NodeWorld) -> None:
        client = await connect_sasl(world)
        await log_in(client, "PLAIN", plain())
        await world.pass_time(2_000)
        reply = await log_in(client, "PLAIN", plain("bob", "bob-secret"))
        assert reply.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert reply.error_message == (
            "Cannot change principals during re-authentication from User.alice: User.bob"
        )
        await world.until(lambda: not client.is_open)

    run_with_sasl(script, REAUTH)


def test_requests_within_a_login_that_comes_again_end_the_connection() -> None:
    async def script(world: NodeWorld) -> None:
        client = await connect_sasl(world)
        await log_in(client, "PLAIN", plain())
        await world.pass_time(2_000)
        assert (await client.ask(SaslHandshakeRequest("PLAIN"), 1)).error_code == 0
        with pytest.raises(ConnectionError):
            await client.ask(METADATA, 9)

    run_with_sasl(script, REAUTH)


def test_the_mechanism_stays_the_same_and_a_second_lies_between() -> None:
    async def script(world: NodeWorld) -> None:
        client = await connect_sasl(world)
        await log_in(client, "PLAIN", plain())
        await world.pass_time(2_000)
        assert (await log_in(client, "PLAIN", plain())).error_code == 0
        reply = await client.ask(SaslHandshakeRequest("PLAIN"), 1)
        assert reply.error_code == ErrorCode.ILLEGAL_SASL_STATE
        await world.pass_time(2_000)
        reply = await log_in(client, "SCRAM-SHA-256", scram_login("alice", "alice-secret"))
        assert reply.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert reply.error_message == (
            "SASL mechanism 'SCRAM-SHA-256' requested by client is not supported for re-authentication of "
            "mechanism 'PLAIN'"
        )

    run_with_sasl(script, REAUTH)
