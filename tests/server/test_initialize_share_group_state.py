"""InitializeShareGroupState begins the state of share partitions, and fences older epochs."""

from headrace.base.error_codes import ErrorCode
from tests.server.node_world import NodeWorld, simulated
from tests.server.share_state_requests import ShareState


@simulated()
async def test_state_begins_anew_with_a_higher_epoch_only(world: NodeWorld) -> None:
    state = await ShareState.connect(world)
    assert await state.initialize(3, 7) == 0
    assert await state.initialize(2, 9) == ErrorCode.FENCED_STATE_EPOCH
    assert (await state.read(0)).start_offset == 7
    assert await state.initialize(4, 9) == 0
    assert ((await state.read(0)).state_epoch, (await state.read(0)).start_offset) == (4, 9)


@simulated()
async def test_a_request_that_comes_twice_begins_nothing_anew(world: NodeWorld) -> None:
    """Members may have accepted records meanwhile (seed 0 of the simulator's `share`)."""
    state = await ShareState.connect(world)
    assert await state.initialize(3, -1) == 0
    assert await state.write(1, 20, (25, 26, 2, 1), state_epoch=3) == 0
    assert await state.initialize(3, -1) == 0
    found = await state.read(1)
    assert (found.start_offset, state.batches(found)) == (20, [(25, 26, 2, 1)])


@simulated()
async def test_only_of_topics_that_there_are(world: NodeWorld) -> None:
    state = await ShareState.connect(world)
    state.topic_id = bytes(15) + b"x"
    assert await state.initialize(0, 0) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    state.topic_id = bytes(16)
    assert await state.initialize(0, 0) == ErrorCode.INVALID_REQUEST
