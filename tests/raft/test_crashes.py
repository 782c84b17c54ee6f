"""The quorum of one under every way to be stopped: what it acknowledged is there again, in order, in a
later epoch.

A member appends without pause on a simulated disk; the nemesis kills it, cuts its power, stops it in the
middle of a disk operation, fills its disk, fails its writes and makes them slow. Rules, checked at every
start: all acknowledged records are delivered; what is delivered is a prefix of what was asked for in that
life and those before; the epoch only grows; and once the faults stop the member leads and writes again.
"""

import asyncio
from random import Random

import pytest

from headrace.base.errors import ApiError
from headrace.raft.drivers.raft_client import KafkaRaftClient
from headrace.testing.machine import Surroundings
from headrace.testing.nemesis import CRASHES, Nemesis, Trouble
from headrace.testing.world import CheckFailedError, World
from tests.raft.building import Follower, format_alone, node_config, open_driver, topics

DIRECTORY = "/mount/data"
KINDS = (*CRASHES, Trouble.DISK_FULL, Trouble.DISK_ERRORS, Trouble.SLOW_DISK, Trouble.CLOCK_JUMP)


class FailedError(Exception):
    """The disk failed: the process gives up, as a node does."""


class Run:
    """One world with one member, and what it has promised so far."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.machine = world.machine("member", disk_bytes=4_000_000)
        self.machine.disk.make_folder("/mount")
        self.machine.disk.sync_folder("/")
        self.asked: list[str] = []
        self.acknowledged: list[str] = []
        self.epoch = 0
        self.settings = {
            "metadata.log.max.record.bytes.between.snapshots": world.rng.choice([300, 5_000, 10**6]),
            "metadata.max.retention.bytes": world.rng.choice([1_000, 10**6]),
        }

    async def member(self, around: Surroundings) -> None:
        """A process: start, check what is there, append until it ends."""
        if not around.disk.exists(f"{DIRECTORY}/meta.properties"):
            format_alone(around.disk, DIRECTORY)
            around.disk.replace_file(f"{DIRECTORY}/meta.properties", b"formatted")
        follower = Follower()
        driver = open_driver(
            around.disk,
            node_config(DIRECTORY, **self.settings),
            follower,
            loop=around.loop,
            clock=around.clock,
        )
        await driver.start()
        self.check(follower, driver)
        while not follower.failures:
            await self.append_some(driver, around.rng)
        raise FailedError

    def check(self, follower: Follower, driver: KafkaRaftClient) -> None:
        names = follower.names
        missing = set(self.acknowledged) - set(names)
        if missing:
            raise CheckFailedError(f"{len(missing)} acknowledged records are gone, {min(missing)} first")
        order = [self.asked.index(name) for name in names]
        if order != sorted(order):
            raise CheckFailedError("records are not in the order in which they were asked for")
        if driver.core.epoch <= self.epoch:
            raise CheckFailedError(f"epoch {driver.core.epoch} after epoch {self.epoch}")
        self.epoch = driver.core.epoch

    async def append_some(self, driver: KafkaRaftClient, rng: Random) -> None:
        """A few at once, so that they share a sync."""
        for _ in range(rng.randrange(1, 5)):
            name = f"t{len(self.asked):06}"
            self.asked.append(name)
            try:
                driver.append(topics([name])).add_done_callback(
                    lambda done, name=name: self.answered(name, done)
                )
            except ApiError:
                self.asked.pop()
        await asyncio.sleep(rng.uniform(0.0, 0.02))

    def answered(self, name: str, done: "asyncio.Future[int]") -> None:
        if done.exception() is None:
            self.acknowledged.append(name)

    async def script(self) -> None:
        self.world.keep_running(self.machine, self.member, may_end_with=(FailedError, OSError, ApiError))
        nemesis = Nemesis(self.world, [self.machine], KINDS)
        await nemesis.rage(4.0)
        nemesis.calm()
        before = len(self.acknowledged)
        await self.world.until(
            lambda: len(self.acknowledged) > before + 20, timeout_s=15, what="records are written again"
        )


@pytest.mark.parametrize("seed", range(30))
def test_what_was_acknowledged_survives(seed: int) -> None:
    world = World(f"raft/{seed}")
    try:
        world.run(Run(world).script())
    finally:
        world.close()
