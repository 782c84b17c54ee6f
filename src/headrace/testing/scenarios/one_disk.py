"""One process that keeps logs on one disk, ended in many ways and started again: what the scenarios of the
log and of compaction share. They say what the process does, and what must be true of each partition.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicId, TopicPartition
from headrace.log.log_moves import adopt_abandoned
from headrace.log.log_store import LogStore
from headrace.log.partition_log import PartitionLog
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.topic import TopicConfig
from headrace.testing.disk import Crash
from headrace.testing.machine import SimulatedMachine, Surroundings
from headrace.testing.nemesis import Nemesis
from headrace.testing.world import World

MORE_BYTES: Final = 1_000_000


class DiskFailedError(Exception):
    """Log directories went offline: the process gives up, and its supervisor starts another."""


class Promises(Protocol):
    """What was promised of one partition."""

    def crashed(self, how: Crash) -> None: ...

    def reopened(self, log: PartitionLog | None) -> None: ...


class OneDisk:
    """A machine, the settings of its process, and what that process promised in all its lives."""

    def __init__(
        self,
        machine: SimulatedMachine,
        broker: BrokerConfig,
        config: TopicConfig,
        promises: Mapping[TopicPartition, Promises],
    ) -> None:
        self.machine = machine
        self.broker = broker
        self.config = config
        self.promises = promises
        self._crashes_seen = 0
        # The mount point is the operator's.
        machine.disk.make_folder("/mount")
        machine.disk.sync_folder("/")

    async def suffer(
        self,
        world: World,
        nemesis: Nemesis,
        new_life: Callable[[Surroundings], "OneLife"],
        *,
        seconds: float,
    ) -> None:
        """Keep the process running while a nemesis rages."""

        async def program(own: Surroundings) -> None:
            for how in self.machine.crashes[self._crashes_seen :]:
                for each in self.promises.values():
                    each.crashed(how)
            self._crashes_seen = len(self.machine.crashes)
            await new_life(own).run()

        world.keep_running(self.machine, program, may_end_with=(DiskFailedError,))
        await nemesis.rage(seconds)
        nemesis.calm()
        # A disk that the run itself has filled is somebody's to enlarge.
        self.machine.disk.tree.capacity_bytes += MORE_BYTES


class OneLife(ABC):
    """One life of the process: opens the store, compares it with what was promised, then works on it."""

    steps_mean: int
    """How many steps it takes, at the mean, until it ends by itself."""
    pause_s_max: float

    def __init__(self, where: OneDisk, own: Surroundings) -> None:
        self.where = where
        self.own = own
        self.rng = own.rng
        self.store = LogStore(own.disk, where.broker, own.clock, own.rng)

    async def run(self) -> None:
        try:
            self.open()
            while self.rng.random() > 1 / self.steps_mean:
                self.need_disk()
                await self.step()
                await asyncio.sleep(self.rng.random() * self.pause_s_max)
            await self.stop()
        except OSError as error:
            raise DiskFailedError from error
        except ApiError as error:
            if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
                raise
            raise DiskFailedError from error

    def open(self) -> None:
        self.store.lock()
        self.store.identify("cluster", 1, lambda: self.rng.randbytes(16))
        self.store.open_all(lambda topic: self.where.config)
        adopt_abandoned(self.store)
        self.need_disk()
        for partition, promises in self.where.promises.items():
            log = self.store.get(partition)
            promises.reopened(log)
            if log is None:
                topic_id = TopicId(partition.partition.to_bytes(16, "big"))
                self.store.create(partition, topic_id, self.where.config)

    def need_disk(self) -> None:
        if len(self.store.online_folders()) < len(self.store.folders):
            raise DiskFailedError

    @abstractmethod
    async def step(self) -> None:
        """Do one thing to one partition."""

    async def stop(self) -> None:
        self.store.close()
        self.need_disk()
