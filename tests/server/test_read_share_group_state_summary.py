"""ReadShareGroupStateSummary tells how far a share partition is, and fences nobody."""

from tests.server.node_world import NodeWorld, simulated
from tests.server.share_state_requests import ShareState


@simulated()
async def test_start_and_count_are_told_to_anyone(world: NodeWorld) -> None:
    state = await ShareState.connect(world)
    assert (await state.summary()).start_offset == -1
    await state.initialize(2, 5)
    await state.read(3)
    await state.write(3, 7, (8, 9, 2, 1), state_epoch=2, complete=2)
    told = await state.summary(7)
    assert (told.state_epoch, told.leader_epoch, told.start_offset, told.delivery_complete_count) == (
        2,
        3,
        7,
        2,
    )
    assert (await state.read(3)).error_code == 0
