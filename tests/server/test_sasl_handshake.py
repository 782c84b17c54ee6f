"""SaslHandshake: which mechanism, and on which listener at all."""

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.server import sasl_server_authenticator
from headrace.wire.schemas.api_versions import ApiVersionsRequest
from headrace.wire.schemas.metadata import MetadataRequest
from headrace.wire.schemas.sasl_handshake import SaslHandshakeRequest
from tests.server.node_world import NodeWorld, simulated
from tests.server.sasl_world import connect_sasl, log_in, plain, run_with_sasl

OFFERED = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


@pytest.mark.parametrize("version", [0, 1])
def test_a_mechanism_that_is_offered_is_begun(version: int) -> None:
    async def script(world: NodeWorld) -> None:
        client = await connect_sasl(world)
        reply = await client.ask(SaslHandshakeRequest("PLAIN"), version)
        assert (reply.error_code, reply.mechanisms) == (0, OFFERED)

    run_with_sasl(script)


def test_another_mechanism_gets_the_list_and_the_end() -> None:
    async def script(world: NodeWorld) -> None:
        client = await connect_sasl(world)
        began = world.now_ms()
        reply = await client.ask(SaslHandshakeRequest("GSSAPI"), 1)
        assert (reply.error_code, reply.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, OFFERED)
        assert world.now_ms() - began >= 100
        await world.until(lambda: not client.is_open)

    run_with_sasl(script)


@simulated()
async def test_a_listener_without_sasl(world: NodeWorld) -> None:
    client = await world.connect()
    reply = await client.ask(SaslHandshakeRequest("PLAIN"), 1)
    assert (reply.error_code, reply.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])


def test_once_logged_in_there_is_nothing_to_begin() -> None:
    async def script(world: NodeWorld) -> None:
        client = await connect_sasl(world)
        await log_in(client, "PLAIN", plain())
        reply = await client.ask(SaslHandshakeRequest("PLAIN"), 1)
        assert (reply.error_code, reply.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
        assert client.is_open
        await client.ask(MetadataRequest(topics=[]), 9)

    run_with_sasl(script)


def test_nothing_but_versions_and_the_login_is_served_before_it() -> None:
    """CVE-2022-34917: few requests, and few bytes of each, of somebody who is not known."""

    async def script(world: NodeWorld) -> None:
        client = await connect_sasl(world)
        assert (await client.ask(ApiVersionsRequest("x", "1"), 3)).error_code == 0
        with pytest.raises(ConnectionError):
            await client.ask(MetadataRequest(topics=[]), 9)
        curious = await connect_sasl(world)
        for _ in range(20):
            await curious.ask(ApiVersionsRequest("x", "1"), 3)
        with pytest.raises(ConnectionError):
            await curious.ask(ApiVersionsRequest("x", "1"), 3)

    run_with_sasl(script)


@pytest.mark.parametrize("limit", [1000, 30_000])
def test_a_large_frame_ends_the_connection(limit: int) -> None:
    """CVE-2022-34917: what somebody who is not known sends takes little memory."""

    async def script(world: NodeWorld) -> None:
        client = await connect_sasl(world)
        with pytest.raises(ConnectionError):
            await client.ask(ApiVersionsRequest("x" * limit, "1"), 3)
        again = await connect_sasl(world)
        await log_in(again, "PLAIN", plain())
        assert (await again.ask(ApiVersionsRequest("x" * limit, "1"), 3)).error_code == 0

    run_with_sasl(script, {"sasl.server.max.receive.size": str(limit)})


def test_a_login_that_takes_too_long_is_ended() -> None:
    async def script(world: NodeWorld) -> None:
        client, known = await connect_sasl(world), await connect_sasl(world)
        await log_in(known, "PLAIN", plain())
        began = world.now_ms()
        await world.until(lambda: not client.is_open)
        assert 29_000 < world.now_ms() - began < 32_000
        await world.pass_time(10_000)
        assert known.is_open

    run_with_sasl(script)


def test_the_oldest_of_too_many_strangers_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sasl_server_authenticator, "STRANGERS_MAX", 3)

    async def script(world: NodeWorld) -> None:
        known = await connect_sasl(world)
        await log_in(known, "PLAIN", plain())
        strangers = [await connect_sasl(world) for _ in range(5)]
        for each in strangers[2:]:
            await each.ask(SaslHandshakeRequest("PLAIN"), 1)
        await world.until(lambda: [each.is_open for each in strangers] == [False] * 2 + [True] * 3)
        assert known.is_open
        await log_in(await connect_sasl(world), "PLAIN", plain())

    run_with_sasl(script)
