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
from headrace.log.future_logs import recover_abandoned_future_logs
from headrace.log.log_manager import LogManager
from headrace.log.unified_log import UnifiedLog
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.topic import TopicConfig
from headrace.testing.disk import Crash
from headrace.testing.machine import SimulatedMachine, Surroundings
from headrace.testing.nemesis import Nemesis
from headrace.testing.world import World

MORE_BYTES: Final = 1_000_000


class DiskFailedError(Exception):
    """Log directories went offline: the process gives up, and its supervisor starts another."""


class ExpectedLog(Protocol):
    """What must be true of one partition's log, whatever happens to the process."""

    def crashed(self, how: Crash) -> None: ...

    def reopened(self, log: UnifiedLog | None) -> None: ...


class OneDisk:
    """A machine, the settings of its process, and what that process promised in all its lives."""

    def __init__(
        self,
        machine: SimulatedMachine,
        broker: BrokerConfig,
        config: TopicConfig,
        expected_logs: Mapping[TopicPartition, ExpectedLog],
    ) -> None:
        self.machine = machine
        self.broker = broker
        self.config = config
        self.expected_logs = expected_logs
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
                for each in self.expected_logs.values():
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
        self.log_manager = LogManager(own.disk, where.broker, own.clock, own.rng)

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
        self.log_manager.lock()
        self.log_manager.identify("cluster", 1, lambda: self.rng.randbytes(16))
        self.log_manager.load_logs(lambda topic: self.where.config)
        recover_abandoned_future_logs(self.log_manager)
        self.need_disk()
        for partition, expected in self.where.expected_logs.items():
            log = self.log_manager.get(partition)
            expected.reopened(log)
            if log is None:
                topic_id = TopicId(partition.partition.to_bytes(16, "big"))
                self.log_manager.create(partition, topic_id, self.where.config)

    def need_disk(self) -> None:
        if len(self.log_manager.live_log_dirs()) < len(self.log_manager.log_dirs):
            raise DiskFailedError

    @abstractmethod
    async def step(self) -> None:
        """Do one thing to one partition."""

    async def stop(self) -> None:
        self.log_manager.close()
        self.need_disk()
