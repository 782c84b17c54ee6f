"""AddRaftVoter: refused where the settings fix the voters, for strangers, and for those who lag."""

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.add_raft_voter import AddRaftVoterRequest, Listener
from tests.server.node_world import NodeWorld, simulated

DYNAMIC = {"controller_quorum_voters": "", "controller_quorum_bootstrap_servers": "node:9093"}


def added(voter_id: int, cluster_id: str | None = None) -> AddRaftVoterRequest:
    return AddRaftVoterRequest(
        cluster_id, 1_000, voter_id, b"v" * 16, [Listener("CONTROLLER", "other", 9093)]
    )


@simulated()
async def test_voters_of_the_settings_cannot_be_changed(world: NodeWorld) -> None:
    client = await world.connect()
    response = await client.ask(added(2), 1)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert "controller.quorum.voters" in response.error_message


@simulated(**DYNAMIC)
async def test_who_may_not_join(world: NodeWorld) -> None:
    client = await world.connect()
    assert (await client.ask(added(1), 1)).error_code == ErrorCode.DUPLICATE_VOTER
    assert (await client.ask(added(2, "another"), 1)).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    lags = await client.ask(added(2), 1)
    assert lags.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert "has not caught up" in lags.error_message
    nowhere = added(2)
    nowhere.listeners = []
    assert (await client.ask(nowhere, 1)).error_code == ErrorCode.INVALID_REQUEST
