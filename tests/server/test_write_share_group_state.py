"""WriteShareGroupState keeps what a leader writes, over restarts and snapshots."""

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.coordinators.coordinator_shard import Done
from headrace.coordinators.drivers.coordinator_runtime import CoordinatorRuntime
from tests.server.node_world import NodeWorld, simulated
from tests.server.share_state_requests import ShareState


@simulated()
async def test_later_writes_count_and_what_lies_before_the_start_is_gone(world: NodeWorld) -> None:
    state = await ShareState.connect(world)
    assert await state.write(0, 0) == ErrorCode.INVALID_REQUEST
    await state.initialize(1, 0)
    assert await state.write(0, 0, (0, 9, 0, 1), (10, 19, 2, 1), state_epoch=1) == 0
    assert await state.write(0, 3, (5, 6, 2, 1), state_epoch=1) == 0
    expected = [(3, 4, 0, 1), (5, 6, 2, 1), (7, 9, 0, 1), (10, 19, 2, 1)]
    assert state.batches(await state.read(0)) == expected
    assert await state.write(0, 3, state_epoch=0) == ErrorCode.FENCED_STATE_EPOCH
    await world.stop()
    await world.start()
    again = await ShareState.connect(world)
    again.topic_id = state.topic_id
    reply = await again.read(0)
    assert (reply.state_epoch, reply.start_offset, again.batches(reply)) == (1, 3, expected)


@simulated(
    share_coordinator_snapshot_update_records_per_snapshot="3",
    share_coordinator_state_topic_prune_interval_ms="1000",
)
async def test_a_snapshot_comes_after_some_updates_and_the_log_before_it_goes(world: NodeWorld) -> None:
    state = await ShareState.connect(world)
    await state.initialize(0, 0)
    for start in range(1, 9):
        assert await state.write(0, start, (start, start + 2, 0, start)) == 0
    topic = "__share_group_state"
    logs = [world.log(topic, index) for index in range(2)]
    assert sorted(log.log_end_offset for log in logs) == [0, 9]
    await world.until(lambda: max(log.log_start_offset for log in logs) == 8)
    await world.stop()
    await world.start()
    again = await ShareState.connect(world)
    again.topic_id = state.topic_id
    reply = await again.read(0)
    assert (reply.start_offset, again.batches(reply)) == (8, [(8, 10, 0, 8)])


def test_nothing_goes_before_the_snapshots_behind_it_are_replicated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever leads next may not have those (seed 251 of the simulator's `share`)."""
    waiting: list[Done] = []

    def when_committed(runtime: object, index: int, done: Done, *, asks_followers: bool = False) -> None:
        waiting.append(done)

    @simulated(
        share_coordinator_snapshot_update_records_per_snapshot="0",
        share_coordinator_state_topic_prune_interval_ms="1000",
    )
    async def prune(world: NodeWorld) -> None:
        state = await ShareState.connect(world)
        await state.initialize(0, 0)
        assert await state.write(0, 1) == 0
        monkeypatch.setattr(CoordinatorRuntime, "when_committed", when_committed)
        logs = [world.log("__share_group_state", index) for index in range(2)]
        await world.until(lambda: len(waiting) >= len(logs))
        assert max(log.log_start_offset for log in logs) == 0
        for done in waiting:
            done(ErrorCode.NONE)
        assert max(log.log_start_offset for log in logs) == 1

    prune()
