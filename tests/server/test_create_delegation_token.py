"""CreateDelegationToken: who gets one, for how long, and that it logs in as its owner."""

import base64
from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.security.sasl.scram import SCRAM_MECHANISMS
from headrace.security.sasl.scram_client import ScramClient
from headrace.wire.schemas.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from headrace.wire.schemas.metadata import MetadataRequest
from tests.server.node_world import Client, NodeWorld
from tests.server.sasl_world import TOKENS, connect_sasl, log_in, logged_in, run_with_sasl

EXPIRY_MS = 100_000


async def use(client: Client, made: Any, mechanism: str = "SCRAM-SHA-256", token_id: str = "") -> Any:
    exchange = ScramClient(
        SCRAM_MECHANISMS[mechanism],
        token_id or made.token_id,
        base64.b64encode(made.hmac).decode(),
        random_bytes=lambda count: b"x" * count,
        extensions={"tokenauth": "true"},
    )
    return await log_in(client, mechanism, exchange)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_token_logs_in_as_its_owner_until_it_expires(mechanism: str) -> None:
    async def script(world: NodeWorld) -> None:
        alice = await logged_in(world)
        made = await alice.ask(CreateDelegationTokenRequest(None, None, [], -1), 3)
        assert made.error_code == 0
        assert (made.principal_name, made.token_requester_principal_name) == ("alice", "alice")
        assert made.max_timestamp_ms - made.issue_timestamp_ms == 7 * EXPIRY_MS
        assert made.expiry_timestamp_ms - made.issue_timestamp_ms == EXPIRY_MS
        client = await connect_sasl(world)
        reply = await use(client, made, mechanism)
        assert reply.error_code == 0
        assert EXPIRY_MS - 10_000 < reply.session_lifetime_ms <= EXPIRY_MS
        _, listener = world.node._listeners._open["SASL_PLAINTEXT"]
        assert [each.attached.principal for each in listener.connections] == ["User:alice"] * 2
        refused = await client.ask(CreateDelegationTokenRequest(None, None, [], -1), 3)
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        await world.pass_time(EXPIRY_MS + 1_000)
        late = await use(await connect_sasl(world), made, mechanism)
        assert late.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        with pytest.raises(ConnectionError):
            await client.ask(MetadataRequest(topics=[]), 9)

    run_with_sasl(script, TOKENS)


def test_expired_tokens_are_forgotten() -> None:
    async def script(world: NodeWorld) -> None:
        alice = await logged_in(world)
        await alice.ask(CreateDelegationTokenRequest(None, None, [], 1000), 3)
        assert len(world.node.image.security.tokens) == 1
        await world.pass_time(3_000)
        assert not world.node.image.security.tokens

    run_with_sasl(script, TOKENS | {"delegation.token.expiry.check.interval.ms": "1000"})


def test_a_token_that_there_is_not_fails_like_a_wrong_password() -> None:
    async def script(world: NodeWorld) -> None:
        made = await (await logged_in(world)).ask(CreateDelegationTokenRequest(None, None, [], -1), 3)
        reply = await use(await connect_sasl(world), made, token_id="other")
        assert reply.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED

    run_with_sasl(script, TOKENS)


def test_who_is_asked_and_for_whom() -> None:
    async def script(world: NodeWorld) -> None:
        stranger = await world.connect()
        reply = await stranger.ask(CreateDelegationTokenRequest(None, None, [], -1), 3)
        assert reply.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert (reply.principal_name, reply.issue_timestamp_ms) == ("ANONYMOUS", -1)
        alice = await logged_in(world)
        renewers = [CreatableRenewers("Group", "g")]
        reply = await alice.ask(CreateDelegationTokenRequest(None, None, renewers, -1), 3)
        assert reply.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
        reply = await alice.ask(CreateDelegationTokenRequest("User", "bob", [], -1), 3)
        assert (reply.error_code, reply.principal_name) == (0, "bob")
        assert reply.token_requester_principal_name == "alice"

    run_with_sasl(script, TOKENS)


def test_without_a_secret_there_are_no_tokens() -> None:
    async def script(world: NodeWorld) -> None:
        alice = await logged_in(world)
        reply = await alice.ask(CreateDelegationTokenRequest(None, None, [], -1), 3)
        assert reply.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED

    run_with_sasl(script)
