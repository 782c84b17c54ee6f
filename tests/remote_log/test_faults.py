"""A node on a store that fails, forgets and tells half truths: nothing is lost, nothing is left behind."""

import random
from typing import Any

import pytest

from headrace.testing.machine import Surroundings
from headrace.testing.remote_store import FaultyStore, StoreFaults
from headrace.tiered.remote_storage import RemoteStorageManager
from headrace.tiered.segment_metadata import RemoteLogSegmentState
from tests.remote_log.test_remote_log_manager import TOPIC, TieredWorld

BATCHES = 30
TROUBLE = StoreFaults(fails=0.1, denies=0.1, halves=0.1, delays=0.1, lists_behind=0.3)


class FaultyWorld(TieredWorld):
    """A tiered node whose store is `faulty`."""

    def __init__(self, seed: int, faults: StoreFaults) -> None:
        super().__init__(seed=seed)
        self._faults = faults
        self._seed = seed
        self.faulty: FaultyStore
        self.make_remote_store = self._faulty_store

    def _faulty_store(self, own: Surroundings) -> RemoteStorageManager:
        self.faulty = FaultyStore(self._store_on(own), random.Random(self._seed), self._faults)
        return self.faulty


def run(seed: int, faults: StoreFaults, test: Any) -> None:
    async def script(world: FaultyWorld) -> None:
        await world.start()
        await test(world)
        await world.stop()

    with FaultyWorld(seed, faults) as world:
        world.run(script(world))


@pytest.mark.parametrize("seed", range(3))
def test_a_topics_life_on_a_troubled_store(seed: int) -> None:
    """Every segment arrives whole, and what failed on the way is gone in the end."""

    async def test(world: FaultyWorld) -> None:
        await world.create_topic("rows", configs=TOPIC)
        for _ in range(BATCHES // 3):
            world.write("rows", 3)
            await world.pass_time(500)
        await world.until(
            lambda: (world.log("rows").tiered_to or 0) >= BATCHES - 3, "all copied", timeout_s=600
        )
        world.faulty.faults = StoreFaults()
        await world.until(lambda: _is_tidy(world), "tidy", timeout_s=1500)
        world.check_no_orphans("rows")
        for segment in world.segments("rows"):
            assert len(world.store.read(segment.object_name(".log"), 0, 1 << 20)) == segment.size
        world.faulty.faults = TROUBLE
        await world.delete_topic("rows")
        await world.until(lambda: not world.objects(), "an empty store", timeout_s=1500)

    run(seed, TROUBLE, test)


def _is_tidy(world: FaultyWorld) -> bool:
    known = {name for segment in world.segments("rows") for name in segment.object_names()}
    states = {segment.state for segment in world.segments("rows")}
    return states == {RemoteLogSegmentState.COPY_FINISHED} and set(world.objects()) <= known


def test_while_the_store_is_away_the_disk_keeps_everything() -> None:
    async def test(world: FaultyWorld) -> None:
        await world.create_topic("rows", configs=TOPIC)
        world.write("rows", 7)
        await world.copied_to("rows", 6)
        world.faulty.is_away = True
        world.write("rows", 12)
        await world.pass_time(120_000)
        log = world.log("rows")
        assert log.tiered_to == 6
        assert log.local_start_offset <= 6
        assert log.log_end_offset == 19
        world.faulty.is_away = False
        await world.until(lambda: (world.log("rows").tiered_to or 0) == 18, "copied", timeout_s=120)
        await world.until(lambda: world.log("rows").local_start_offset == 18, "a short tail", timeout_s=120)
        world.check_no_orphans("rows")

    run(1, StoreFaults(), test)
