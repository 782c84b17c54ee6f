"""UpdateRaftVoter: a voter that moved is found where it says, in the epoch of now only."""

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.update_raft_voter import KRaftVersionFeature, Listener, UpdateRaftVoterRequest
from tests.server.node_world import NodeWorld, simulated
from tests.server.test_add_raft_voter import DYNAMIC


@simulated(**DYNAMIC)
async def test_a_voter_moves(world: NodeWorld) -> None:
    client = await world.connect_controller()
    driver = world.node.quorum.client

    def moved(epoch: int) -> UpdateRaftVoterRequest:
        return UpdateRaftVoterRequest(
            None,
            epoch,
            1,
            driver.core.directory_id,
            [Listener("CONTROLLER", "moved", 9093)],
            KRaftVersionFeature(0, 1),
        )

    assert (await client.ask(moved(0), 0)).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (await client.ask(moved(9), 0)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    response = await client.ask(moved(1), 0)
    assert response.error_code == 0
    assert (response.current_leader.leader_id, response.current_leader.leader_epoch) == (1, 1)
    assert driver.log.voters is not None
    assert driver.log.voters.by_id[1].endpoints == {"CONTROLLER": ("moved", 9093)}
