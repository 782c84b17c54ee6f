"""ExpireDelegationToken: less time, or none."""

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.create_delegation_token import CreateDelegationTokenRequest
from headrace.wire.schemas.expire_delegation_token import ExpireDelegationTokenRequest
from tests.server.node_world import NodeWorld
from tests.server.sasl_world import TOKENS, logged_in, plain, run_with_sasl


def test_a_token_is_shortened_and_ended_by_its_owner() -> None:
    async def script(world: NodeWorld) -> None:
        alice, bob = await logged_in(world), await logged_in(world, plain("bob", "bob-secret"))
        made = await alice.ask(CreateDelegationTokenRequest(None, None, [], -1), 3)
        refused = await bob.ask(ExpireDelegationTokenRequest(made.hmac, -1), 2)
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        stranger = await (await world.connect()).ask(ExpireDelegationTokenRequest(made.hmac, -1), 2)
        assert stranger.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        shorter = await alice.ask(ExpireDelegationTokenRequest(made.hmac, 5_000), 2)
        assert shorter.error_code == 0
        assert 0 <= shorter.expiry_timestamp_ms - made.issue_timestamp_ms - 5_000 < 5_000
        await world.pass_time(6_000)
        late = await alice.ask(ExpireDelegationTokenRequest(made.hmac, 5_000), 2)
        assert late.error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
        assert (await alice.ask(ExpireDelegationTokenRequest(made.hmac, -1), 2)).error_code == 0
        gone = await alice.ask(ExpireDelegationTokenRequest(made.hmac, -1), 2)
        assert gone.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        assert not world.node.image.security.tokens

    run_with_sasl(script, TOKENS)
