"""RenewDelegationToken: more time, for whom it is anything to do with."""

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from headrace.wire.schemas.renew_delegation_token import RenewDelegationTokenRequest
from tests.server.node_world import NodeWorld
from tests.server.sasl_world import TOKENS, logged_in, plain, run_with_sasl

EXPIRY_MS = 100_000


def test_owners_and_renewers_renew_up_to_the_last_moment() -> None:
    async def script(world: NodeWorld) -> None:
        alice, bob = await logged_in(world), await logged_in(world, plain("bob", "bob-secret"))
        made = await alice.ask(CreateDelegationTokenRequest(None, None, [], 2 * EXPIRY_MS), 3)
        refused = await bob.ask(RenewDelegationTokenRequest(made.hmac, -1), 2)
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        unknown = await bob.ask(RenewDelegationTokenRequest(b"x" * 64, -1), 2)
        assert unknown.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        stranger = await (await world.connect()).ask(RenewDelegationTokenRequest(made.hmac, -1), 2)
        assert stranger.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        await world.pass_time(10_000)
        renewed = await alice.ask(RenewDelegationTokenRequest(made.hmac, 20_000), 2)
        assert renewed.error_code == 0
        assert 0 <= renewed.expiry_timestamp_ms - made.issue_timestamp_ms - 30_000 < 5_000
        renewed = await alice.ask(RenewDelegationTokenRequest(made.hmac, -1), 2)
        assert 0 <= renewed.expiry_timestamp_ms - made.issue_timestamp_ms - 110_000 < 5_000
        await world.pass_time(EXPIRY_MS - 5_000)
        renewed = await alice.ask(RenewDelegationTokenRequest(made.hmac, -1), 2)
        assert renewed.expiry_timestamp_ms == made.max_timestamp_ms

    run_with_sasl(script, TOKENS)


def test_a_renewer_may_and_an_expired_token_is_over() -> None:
    async def script(world: NodeWorld) -> None:
        alice, bob = await logged_in(world), await logged_in(world, plain("bob", "bob-secret"))
        renewers = [CreatableRenewers("User", "bob")]
        made = await alice.ask(CreateDelegationTokenRequest(None, None, renewers, EXPIRY_MS), 3)
        assert (await bob.ask(RenewDelegationTokenRequest(made.hmac, 10_000), 2)).error_code == 0
        await world.pass_time(11_000)
        late = await bob.ask(RenewDelegationTokenRequest(made.hmac, 10_000), 2)
        assert late.error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED

    run_with_sasl(script, TOKENS)
