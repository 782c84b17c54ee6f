"""The client's half of a login: what it sends, when it logs in again, and what it does not believe."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.clients.config import ADMIN, ClientConfig
from headrace.clients.internals.channel_builder import channel_builder_of
from headrace.security.login import new_client, provided_credentials
from headrace.security.sasl.mechanism import SaslClient, SaslError
from headrace.security.sasl.plain import PlainClient
from headrace.security.sasl_channel_builder import AGAIN_AFTER, STEPS_MAX, SaslChannelBuilder
from headrace.settings.definition import SettingError
from headrace.testing.loop import SimulatedLoop
from headrace.transport.channel_builder import PLAINTEXT
from headrace.wire.schemas.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from headrace.wire.schemas.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


class Scripted:
    """A connection to a broker that answers by a script."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[Any] = []
        self.is_open = True
        self.holds: list[str] = []

    def ask_now(self, message: Any, version: int, response: Any, *, timeout_ms: int = 0) -> Any:
        self.asked.append(message)
        future = asyncio.get_running_loop().create_future()
        future.set_result(self.answers.pop(0))
        return future

    ask = ask_now

    def hold_requests(self) -> None:
        self.holds.append("hold")

    def release_requests(self) -> None:
        self.holds.append("release")

    def close(self, reason: str = "") -> None:
        self.is_open = False


async def begin(host: str) -> SaslClient:
    return PlainClient("alice", "secret")


def builder() -> SaslChannelBuilder:
    return SaslChannelBuilder(PLAINTEXT, "PLAIN", begin, random.Random(1))


def run(script: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(script())


HELLO = SaslHandshakeResponse(0, ["PLAIN"])
DONE = SaslAuthenticateResponse(0, None, b"", 0)


def test_a_login() -> None:
    async def script() -> None:
        connection = Scripted(HELLO, DONE)
        await builder().authenticate(connection, "host")
        assert connection.asked == [
            SaslHandshakeRequest("PLAIN"),
            SaslAuthenticateRequest(b"\0alice\0secret"),
        ]
        assert connection.holds == []

    run(script)


def test_what_the_broker_refuses_is_told() -> None:
    async def script() -> None:
        other = SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["SCRAM-SHA-256"])
        with pytest.raises(ApiError, match="offers SCRAM-SHA-256") as failure:
            await builder().authenticate(Scripted(other), "host")
        assert failure.value.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM
        wrong = SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, "it is wrong")
        with pytest.raises(ApiError, match="it is wrong"):
            await builder().authenticate(Scripted(HELLO, wrong), "host")

    run(script)


def test_a_broker_that_never_ends_the_exchange_is_left() -> None:
    class Endless:
        is_complete = False

        def first(self) -> bytes:
            return b"x"

        def evaluate(self, challenge: bytes) -> bytes | None:
            return b"x"

    async def endless(host: str) -> SaslClient:
        return Endless()

    async def script() -> None:
        builder = SaslChannelBuilder(PLAINTEXT, "PLAIN", endless, random.Random(1))
        with pytest.raises(ApiError, match="not through"):
            await builder.authenticate(Scripted(HELLO, *[DONE] * STEPS_MAX), "host")

    run(script)


def test_the_client_logs_in_again_before_its_session_ends() -> None:
    """In virtual time: when it does so is exact, however slow the machine is."""
    loop = SimulatedLoop()
    again_at: list[float] = []

    async def script() -> None:
        short = SaslAuthenticateResponse(0, None, b"", 20_000)
        connection = Scripted(HELLO, *[short, HELLO] * 3, DONE)
        began = loop.time()
        await builder().authenticate(connection, "host")
        while connection.holds != ["hold", "release"] * 3:
            held = len(connection.holds)
            await asyncio.sleep(0.01)
            if len(connection.holds) > held:
                again_at.append(loop.time() - began)
                began = loop.time()
        assert len(connection.asked) == 8
        assert connection.is_open

    loop.run_until_complete(script())
    loop.close()
    assert len(again_at) == 3
    assert all(20 * AGAIN_AFTER[0] <= each <= 20 * AGAIN_AFTER[1] + 0.1 for each in again_at)


def test_a_login_that_fails_the_second_time_ends_the_connection() -> None:
    async def script() -> None:
        short = SaslAuthenticateResponse(0, None, b"", 20)
        wrong = SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, "it is wrong now")
        connection = Scripted(HELLO, short, HELLO, wrong)
        await builder().authenticate(connection, "host")
        while connection.is_open:
            await asyncio.sleep(0)
        assert connection.holds == ["hold"]

    run(script)


def client(mechanism: str, **settings: str) -> Any:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return asyncio.run(_begun(new_client(mechanism, given.get, random_bytes=lambda count: b"x" * count)))


async def _begun(begin: Any) -> Any:
    return await begin("host")


def test_who_the_client_is_in_both_forms() -> None:
    line = f'{PLAIN} required username="a" password="b";'
    assert client("PLAIN", sasl_jaas_config=line).first() == b"\0a\0b"
    assert client("PLAIN", sasl_username="a", sasl_password="b").first() == b"\0a\0b"
    assert client("SCRAM-SHA-256", sasl_username="a", sasl_password="b").first().startswith(b"n,,n=a,r=")
    token = f'{SCRAM} required username="id" password="hmac" tokenauth="true";'
    assert client("SCRAM-SHA-512", sasl_jaas_config=token).first().endswith(b",tokenauth=true")


def provided(provide: Callable[[], Any], *more: Callable[[], Any]) -> list[bytes]:
    """First messages of one client's logins, which are told what the functions give in turn."""
    turns = iter((provide, *more))
    begin = new_client(
        "PLAIN",
        {"sasl.username": "nobody", "sasl.password": "asks"}.get,
        random_bytes=lambda count: b"x" * count,
        get_credentials=provided_credentials(lambda: next(turns)()),
    )

    async def log_in() -> list[bytes]:
        return [(await begin("host")).first() for _ in range(1 + len(more))]

    return asyncio.run(log_in())


def test_a_function_says_who_the_client_is_at_each_login() -> None:
    """So a password may change while the client runs."""
    assert provided(lambda: ("a", "old"), lambda: ("a", "new")) == [b"\0a\0old", b"\0a\0new"]


def _fail() -> Any:
    raise LookupError("hunter")


@pytest.mark.parametrize(
    "provide",
    [_fail, lambda: None, lambda: ("a",), lambda: ("a", ""), lambda: ("a", b"hunter"), lambda: "hunter"],
)
def test_a_function_that_gives_nobody_is_told_without_a_secret(provide: Callable[[], Any]) -> None:
    with pytest.raises(SaslError, match=r"sasl\.credentials\.provider") as failure:
        provided(provide)
    assert "hunter" not in str(failure.value)


def test_a_client_is_given_its_function_with_its_settings() -> None:
    """It is asked only when the client logs in: nobody listens here."""
    settings = {
        "bootstrap.servers": "localhost:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
    }
    with pytest.raises(SettingError, match=r"sasl\.jaas\.config"):
        channel_builder_of(ClientConfig(ADMIN, settings))
    channel_builder_of(ClientConfig(ADMIN, settings | {"sasl.credentials.provider": _fail}))


@pytest.mark.parametrize(
    ("mechanism", "settings"),
    [
        ("PLAIN", {}),
        ("PLAIN", {"sasl_username": "hunter"}),
        ("PLAIN", {"sasl_jaas_config": f'{PLAIN} required username="hunter";'}),
        ("SCRAM-SHA-256", {"sasl_jaas_config": f'{PLAIN} required username="a" password="hunter";'}),
        ("PLAIN", {"sasl_jaas_config": 'com.evil.Module required password="hunter";'}),
        ("OAUTHBEARER", {}),
    ],
)
def test_settings_that_name_nobody_are_refused_without_a_secret(
    mechanism: str, settings: dict[str, str]
) -> None:
    with pytest.raises(SettingError) as failure:
        client(mechanism, **settings)
    assert "hunter" not in str(failure.value)
