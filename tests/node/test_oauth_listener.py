"""A listener that takes tokens: it starts only with all that it needs, and follows the issuer's keys."""

import json
from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.security.sasl.oauthbearer import OAuthBearerClient
from headrace.settings.definition import SettingError
from headrace.wire.schemas.metadata import MetadataRequest
from tests.security.sasl.tokens import AUDIENCE, ISSUER, claims, key_set, rsa_key, signed
from tests.server.node_world import NodeWorld
from tests.server.sasl_world import SASL_SETTINGS, connect_sasl, log_in

KEYS = "/keys.json"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
SETTINGS = SASL_SETTINGS | {
    "sasl.enabled.mechanisms": "OAUTHBEARER,PLAIN",
    "sasl.oauthbearer.jwks.endpoint.url": f"file://{KEYS}",
    "sasl.oauthbearer.expected.issuer": ISSUER,
    "sasl.oauthbearer.expected.audience": AUDIENCE,
}


def run(script: Any, keys: bytes | None, settings: dict[str, str]) -> None:
    with NodeWorld(settings) as world:
        if keys is not None:
            write(world, keys)
        world.run(script(world))


def write(world: NodeWorld, keys: bytes) -> None:
    world.machine.disk.replace_file(KEYS, keys)


def now_s(world: NodeWorld) -> float:
    return world.node.parts.clock.now_ms() / 1000


async def login(world: NodeWorld, token: str) -> tuple[Any, Any]:
    client = await connect_sasl(world)
    return client, await log_in(client, "OAUTHBEARER", OAuthBearerClient(token))


def test_a_token_logs_in_and_its_session_ends_with_it() -> None:
    async def script(world: NodeWorld) -> None:
        await world.start()
        client, reply = await login(world, signed(claims(now_s(world), exp=int(now_s(world)) + 100)))
        assert reply.error_code == 0
        assert 98_000 < reply.session_lifetime_ms <= 100_000
        await client.ask(MetadataRequest(topics=[]), 9)
        await world.pass_time(101_000)
        with pytest.raises(ConnectionError):
            await client.ask(MetadataRequest(topics=[]), 9)
        await world.stop()

    run(script, key_set(rsa_key()), SETTINGS)


def test_a_token_of_somebody_else_does_not() -> None:
    async def script(world: NodeWorld) -> None:
        await world.start()
        for token in (
            signed(claims(now_s(world), aud="x")),
            signed(claims(now_s(world)), rsa_key("stranger")),
        ):
            _, reply = await login(world, token)
            assert reply.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert json.loads(reply.error_message) == {"status": "invalid_token"}
        await world.stop()

    run(script, key_set(rsa_key()), SETTINGS)


def test_new_keys_of_the_issuer_are_found_soon() -> None:
    async def script(world: NodeWorld) -> None:
        await world.start()
        write(world, key_set(rsa_key("new")))
        await world.pass_time(20_000)
        _, reply = await login(world, signed(claims(now_s(world)), rsa_key("new")))
        assert reply.error_code  # it has the keys read again
        await world.pass_time(11_000)
        _, reply = await login(world, signed(claims(now_s(world)), rsa_key("new")))
        assert reply.error_code == 0
        write(world, b"broken")
        await world.pass_time(4_000_000)
        _, reply = await login(world, signed(claims(now_s(world)), rsa_key("new")))
        assert reply.error_code == 0  # the former ones hold
        await world.stop()

    run(script, key_set(rsa_key()), SETTINGS)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("sasl.oauthbearer.jwks.endpoint.url", ""),
        ("sasl.oauthbearer.expected.issuer", ""),
        ("sasl.oauthbearer.expected.audience", ""),
        ("sasl.oauthbearer.jwks.endpoint.url", "file:///other.json"),
        ("sasl.oauthbearer.jwks.endpoint.url", "http://keys.example/"),
        ("sasl.oauthbearer.jwks.endpoint.url", "ftp://keys.example/"),
        (
            "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config",
            f'{MODULE} required unsecuredLoginStringClaim_sub="admin";',
        ),
    ],
)
def test_a_node_that_could_not_check_tokens_does_not_start(setting: str, value: str) -> None:
    """CVE-2026-33557, CVE-2026-110985."""

    async def script(world: NodeWorld) -> None:
        with pytest.raises(SettingError) as failure:
            await world.start()
        assert failure.value.setting == setting

    run(script, key_set(rsa_key()), SETTINGS | {setting: value})


def test_a_set_without_keys_keeps_a_node_from_starting() -> None:
    async def script(world: NodeWorld) -> None:
        with pytest.raises(SettingError, match="no keys"):
            await world.start()

    run(script, b'{"keys": []}', SETTINGS)
