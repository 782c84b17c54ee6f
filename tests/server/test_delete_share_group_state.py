"""DeleteShareGroupState forgets a share partition."""

from headrace.base.error_codes import ErrorCode
from tests.server.node_world import NodeWorld, simulated
from tests.server.share_state_requests import ShareState


@simulated()
async def test_it_is_gone_and_can_be_deleted_again(world: NodeWorld) -> None:
    state = await ShareState.connect(world)
    await state.initialize(0, 5)
    assert await state.delete() == 0
    assert (await state.read(0)).error_code == ErrorCode.INVALID_REQUEST
    assert await state.delete() == 0


@simulated()
async def test_it_goes_with_its_topic(world: NodeWorld) -> None:
    state = await ShareState.connect(world)
    await state.initialize(0, 5)
    shards = world.node.parts.share_groups.coordinator.runtime.shards()
    assert sum(len(shard.states) for shard in shards) == 1
    await world.delete_topic("t")
    await world.until(lambda: sum(len(shard.states) for shard in shards) == 0)
