"""DescribeDelegationToken: which tokens there are, of whom, for whom."""

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from headrace.wire.schemas.describe_delegation_token import (
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from tests.server.node_world import NodeWorld
from tests.server.sasl_world import TOKENS, logged_in, plain, run_with_sasl


def test_all_and_those_of_an_owner() -> None:
    async def script(world: NodeWorld) -> None:
        alice, bob = await logged_in(world), await logged_in(world, plain("bob", "bob-secret"))
        made = await alice.ask(
            CreateDelegationTokenRequest(None, None, [CreatableRenewers("User", "carol")], -1), 3
        )
        other = await bob.ask(CreateDelegationTokenRequest(None, None, [], -1), 3)
        everything = await alice.ask(DescribeDelegationTokenRequest(None), 3)
        assert {each.token_id for each in everything.tokens} == {made.token_id, other.token_id}
        nothing = await alice.ask(DescribeDelegationTokenRequest([]), 3)
        assert (nothing.error_code, nothing.tokens) == (0, [])
        for name in ("alice", "carol"):
            owners = [DescribeDelegationTokenOwner("User", name)]
            (found,) = (await alice.ask(DescribeDelegationTokenRequest(owners), 3)).tokens
            assert (found.token_id, bytes(found.hmac)) == (made.token_id, bytes(made.hmac))
            assert found.renewers == [DescribedDelegationTokenRenewer("User", "carol")]
            assert found.expiry_timestamp == made.expiry_timestamp_ms

    run_with_sasl(script, TOKENS)


def test_who_may_not_ask() -> None:
    async def script(world: NodeWorld) -> None:
        reply = await (await world.connect()).ask(DescribeDelegationTokenRequest(None), 3)
        assert reply.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        reply = await (await logged_in(world)).ask(DescribeDelegationTokenRequest(None), 3)
        assert reply.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED

    run_with_sasl(script)
