"""A node with SASL listeners in a simulated world, and logins on it step by step."""

import base64
from collections.abc import Mapping
from typing import Any

from headrace.security.sasl import scram
from headrace.security.sasl.mechanism import SaslClient
from headrace.security.sasl.plain import PlainClient
from headrace.security.sasl.scram_client import ScramClient
from headrace.wire.schemas.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from headrace.wire.schemas.sasl_authenticate import SaslAuthenticateRequest
from headrace.wire.schemas.sasl_handshake import SaslHandshakeRequest
from tests.server.node_world import Client, NodeWorld

SASL_PORT = 9094
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SASL_SETTINGS = {
    "listeners": f"PLAINTEXT://node:9092,SASL_PLAINTEXT://node:{SASL_PORT},CONTROLLER://node:9093",
    "listener.security.protocol.map": (
        "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
    ),
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{PLAIN_MODULE} required user_alice="alice-secret" user_bob="bob-secret";'
    ),
}


def run_with_sasl(script: Any, settings: Mapping[str, str] | None = None) -> None:
    """Run `script(world)` with a node that has a SASL listener."""

    async def whole(world: NodeWorld) -> None:
        await world.start()
        await script(world)
        await world.stop()

    with NodeWorld(SASL_SETTINGS | dict(settings or {})) as world:
        world.run(whole(world))


async def connect_sasl(world: NodeWorld) -> Client:
    return await world.connect(port=SASL_PORT)


def plain(name: str = "alice", password: str = "alice-secret") -> SaslClient:
    return PlainClient(name, password)


def scram_login(name: str, password: str, mechanism: str = "SCRAM-SHA-256") -> SaslClient:
    return ScramClient(
        scram.SCRAM_MECHANISMS[mechanism], name, password, random_bytes=lambda count: b"x" * count
    )


async def log_in(client: Client, mechanism: str, exchange: SaslClient) -> Any:
    """The last reply of the login: a refusal, or the success."""
    reply = await client.ask(SaslHandshakeRequest(mechanism), 1)
    if reply.error_code:
        return reply
    token: bytes | None = exchange.first()
    while token is not None:
        reply = await client.ask(SaslAuthenticateRequest(token), 2)
        if reply.error_code:
            return reply
        token = exchange.evaluate(bytes(reply.auth_bytes))
    return reply


async def add_user(client: Client, name: str, password: str, mechanism: int = 1) -> Any:
    digest = scram.BY_NUMBER[mechanism].digest
    salt = base64.b64decode("c2FsdHNhbHRzYWx0c2FsdA==")
    salted = scram.salted_password(digest, password, salt, 4096)
    made = ScramCredentialUpsertion(name, mechanism, 4096, salt, salted)
    return await client.ask(AlterUserScramCredentialsRequest(upsertions=[made]), 0)


TOKENS = {
    "delegation.token.secret.key": "the cluster's secret",
    "delegation.token.expiry.time.ms": "100000",
    "delegation.token.max.lifetime.ms": "700000",
}
"""Settings with which there are delegation tokens."""


async def logged_in(world: NodeWorld, exchange: SaslClient | None = None) -> Client:
    """A connection of alice's, by PLAIN."""
    client = await connect_sasl(world)
    reply = await log_in(client, "PLAIN", exchange or plain())
    assert reply.error_code == 0
    return client
