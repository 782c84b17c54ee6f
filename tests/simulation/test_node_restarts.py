"""One kind of trouble at a time: producers with five in flight and a consumer notice nothing of it."""

import pytest

from headrace.testing.nemesis import Trouble
from headrace.testing.scenarios.node import NodeRun
from headrace.testing.world import World


@pytest.mark.parametrize("trouble", [Trouble.RESTART, Trouble.KILL, Trouble.CLOCK_JUMP])
@pytest.mark.parametrize("seed", [1, 2])
def test_clients_notice_nothing(trouble, seed):
    world = World(f"restarts/{seed}")
    try:
        run = NodeRun(world)
        run.kinds = [trouble]
        run.is_about_liveness = True
        world.run(run.script())
        assert run.node.boots > 1 or trouble is Trouble.CLOCK_JUMP
        assert all(producer.refusal is None for producer in run.producers)
        for producer, seen in zip(run.producers, run.consumer.seen, strict=True):
            assert producer.acknowledged
            assert seen
    finally:
        world.close()
