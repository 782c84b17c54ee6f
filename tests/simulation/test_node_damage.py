"""A real node in the simulated world loses nothing to a flipped bit in what is not the records themselves."""

import pytest

from headrace.testing.disk import Crash
from headrace.testing.scenarios.node import LOG_DIR, METADATA, NodeRun
from headrace.testing.world import World


class Damaged(NodeRun):
    """Nothing goes wrong but what `damage_files` does to the disk while the node is down."""

    def __init__(self, damage_files):
        self.world = World("damaged")
        super().__init__(self.world)
        self.kinds = []
        self.damage_files = damage_files

    async def play(self):
        self.begin()
        await self.all_have(20)
        self.node.crash(Crash.KILL)
        self.damage_files(self.node.disk)
        await self.world.until(lambda: self.node.is_running, timeout_s=10, what="another boot")
        await self.all_have(40)
        await self.end()

    async def all_have(self, count):
        await self.world.until(
            lambda: all(len(producer.acknowledged) > count for producer in self.producers),
            timeout_s=60,
            what=f"{count} acknowledged records in each partition",
        )

    def folders(self):
        return {path.split("/")[3] for path in self.node.disk.files() if path.startswith(f"{LOG_DIR}/events")}


def played(damage_files):
    run = Damaged(damage_files)
    try:
        run.world.run(run.play())
        return run
    finally:
        run.world.close()


PARTITION_METADATA = f"{LOG_DIR}/events-0/partition.metadata"
# "version: 0\ntopic_id: " and 22 characters.
PLACES = [*range(0, 21, 4), *range(21, 43, 3)]


@pytest.mark.parametrize("position", PLACES)
def test_a_flipped_bit_in_partition_metadata_loses_nothing(position):
    def flip(disk):
        disk.tree.file(PARTITION_METADATA).data[position] ^= 1

    assert played(flip).folders() == {"events-0", "events-1"}


def test_a_missing_partition_metadata_loses_nothing():
    run = played(lambda disk: disk.lose(PARTITION_METADATA))
    assert run.folders() == {"events-0", "events-1"}
    assert run.node.disk.exists(PARTITION_METADATA)


@pytest.mark.parametrize("name", ["recovery-point", "replication", "log-start"])
def test_a_flipped_bit_in_a_checkpoint_loses_nothing(name):
    def flip(disk):
        path = f"{LOG_DIR}/{name}-offset-checkpoint"
        if disk.exists(path):
            disk.flip_bit(path)

    assert played(flip).folders() == {"events-0", "events-1"}


def test_the_metadata_log_is_refused_and_taken_once_it_is_put_right():
    run = Damaged(lambda disk: None)
    flip_source = run.damage._flip_source  # the one kind of damage that this is about
    run.damage_files = lambda disk: flip_source(disk, run.world.rng)
    try:
        run.world.run(run.play())
    finally:
        run.world.close()
    assert run.node.boots > 2
    assert any(path.startswith(METADATA) for path in run.node.disk.files())
