"""RemoveRaftVoter: only one that is a voter, and never the last."""

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.remove_raft_voter import RemoveRaftVoterRequest
from tests.server.node_world import NodeWorld, simulated
from tests.server.test_add_raft_voter import DYNAMIC


@simulated(**DYNAMIC)
async def test_who_cannot_go(world: NodeWorld) -> None:
    client = await world.connect()
    directory_id = world.node.quorum.client.core.directory_id
    stranger = await client.ask(RemoveRaftVoterRequest(None, 2, b"v" * 16), 0)
    assert stranger.error_code == ErrorCode.VOTER_NOT_FOUND
    other_disk = await client.ask(RemoveRaftVoterRequest(None, 1, b"v" * 16), 0)
    assert other_disk.error_code == ErrorCode.VOTER_NOT_FOUND
    last = await client.ask(RemoveRaftVoterRequest(None, 1, directory_id), 0)
    assert last.error_code == ErrorCode.INVALID_REQUEST
    assert "last voter" in last.error_message
