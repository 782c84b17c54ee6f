"""ReadShareGroupState fences the leaders before the one that asks."""

from headrace.base.error_codes import ErrorCode
from tests.server.node_world import NodeWorld, simulated
from tests.server.share_state_requests import ShareState


@simulated()
async def test_a_leader_that_was_followed_by_another_is_fenced(world: NodeWorld) -> None:
    state = await ShareState.connect(world)
    assert (await state.read(0)).error_code == ErrorCode.INVALID_REQUEST
    await state.initialize(0, 5)
    assert (await state.read(2)).error_code == 0
    assert (await state.read(1)).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert await state.write(1, 5) == ErrorCode.FENCED_LEADER_EPOCH
    assert await state.write(2, 5) == 0
