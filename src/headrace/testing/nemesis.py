"""What goes wrong in a run, drawn from the seed: the opponent of everything that wants to work.

A nemesis is given its victims and the kinds of trouble that the scenario's promises cover. While it rages
it strikes at random moments, several kinds at once; every strike ends by itself. `calm` ends all of them,
for good: what must come about once faults stop is measured from there.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, Final

from headrace.testing.disk import Crash
from headrace.testing.machine import SimulatedMachine
from headrace.testing.world import World


class Trouble(Enum):
    """Kinds of faults; RELIABILITY.md lists what must hold under each."""

    KILL = "the process is killed"
    RESTART = "the process is asked to stop"
    POWER_CUT = "the machine loses power"
    CRASH_WITHIN = "the process ends in the middle of a disk operation"
    CUT = "connections are reset"
    SILENCE = "a connection swallows everything"
    PARTITION = "machines cannot reach each other"
    ONE_WAY = "packets pass in one direction only"
    PAUSE = "a process stands still, then goes on"
    SLOW_NETWORK = "packets are late and lost for a while"
    CLOCK_JUMP = "a wall clock is set"
    DISK_FULL = "a disk has no room"
    DISK_ERRORS = "writes and syncs fail"
    SLOW_DISK = "blocking disk operations take long"
    BIT_FLIP = "a bit of a file is flipped at rest"


# A process that has so little to do with its disk is not ended in the middle of that.
CRASH_WITHIN_S: Final = 3.0

NETWORK = (Trouble.CUT, Trouble.SILENCE, Trouble.PARTITION, Trouble.ONE_WAY)
CRASHES = (Trouble.KILL, Trouble.POWER_CUT, Trouble.CRASH_WITHIN)


class Nemesis:
    """Strikes the victims of one world."""

    def __init__(
        self,
        world: World,
        victims: Sequence[SimulatedMachine],
        kinds: Sequence[Trouble],
        *,
        flip: Callable[[SimulatedMachine, random.Random], None] | None = None,
        stop: Callable[[SimulatedMachine], object] | None = None,
        may_strike: Callable[[Trouble, SimulatedMachine], bool] = lambda kind, victim: True,
    ) -> None:
        self.world = world
        self.victims = victims
        self.kinds = [kind for kind in kinds if world.faults is None or kind in world.faults]
        self.strikes: list[Trouble] = []
        self._flip = flip or flip_any_file
        self._stop = stop or SimulatedMachine.retire
        self._may_strike = may_strike
        self._usual_conditions = world.network.conditions
        self._rng = world.scheduler.random_for("nemesis")
        self._tasks: list[asyncio.Task[None]] = []

    async def rage(self, seconds: float) -> None:
        """Strike at random moments for so long, then let what was begun end or `calm` it."""
        if not self.kinds:
            await asyncio.sleep(seconds)
            return
        loop = self.world.driver
        until = loop.time() + seconds
        pause_s = self._rng.choice([0.05, 0.3, 1.0])
        while loop.time() < until:
            await asyncio.sleep(self._rng.expovariate(1 / pause_s))
            kind = self._rng.choice(self.kinds)
            victim = self._rng.choice(self.victims)
            if not self._may_strike(kind, victim):
                continue
            self.world.note(f"strike: {kind.value} ({victim.name})")
            self.strikes.append(kind)
            self._tasks.append(loop.create_task(self._strike(kind, victim)))

    def calm(self) -> None:
        """End every fault that lasts. Crashed machines are their supervisor's business."""
        for task in self._tasks:
            task.cancel()
        self.world.network.heal()
        self.world.network.conditions = self._usual_conditions
        for victim in self.victims:
            victim.disk.faults.calm()
            victim.resume()
            if victim.process is not None:
                victim.process.loop.run_jobs_at_usual_speed()
        self.world.note("calm")

    async def _strike(self, kind: Trouble, victim: SimulatedMachine) -> None:
        strike: Callable[[SimulatedMachine], Coroutine[Any, Any, None]] = getattr(
            self, f"_{kind.name.lower()}"
        )
        await strike(victim)

    # --- crashes ---

    async def _kill(self, victim: SimulatedMachine) -> None:
        victim.crash(Crash.KILL)

    async def _restart(self, victim: SimulatedMachine) -> None:
        if victim.is_running:
            self._stop(victim)

    async def _power_cut(self, victim: SimulatedMachine) -> None:
        victim.crash(Crash.POWER_CUT)

    async def _crash_within(self, victim: SimulatedMachine) -> None:
        if victim.is_running:
            disk = victim.disk
            victim.crash_within(self._rng.randrange(30), self._rng.choice([Crash.KILL, Crash.POWER_CUT]))
            await asyncio.sleep(CRASH_WITHIN_S)
            disk.faults.stop_never()

    async def _pause(self, victim: SimulatedMachine) -> None:
        process = victim.process
        if process is not None:
            process.loop.pause()
            await asyncio.sleep(self._rng.choice([0.05, 1.0, 10.0]))
            process.loop.resume()

    # --- the network ---

    async def _cut(self, victim: SimulatedMachine) -> None:
        for stream in self.world.network.connections(victim.name):
            if self._rng.random() < 0.7:
                self.world.network.cut(stream)

    async def _silence(self, victim: SimulatedMachine) -> None:
        streams = self.world.network.connections(victim.name)
        if streams:
            self.world.network.silence(self._rng.choice(streams))

    async def _partition(self, victim: SimulatedMachine) -> None:
        """The victim is alone, or some go with it."""
        others = self._others(victim)
        share = self._rng.choice([0.0, 0.0, 0.3, 0.6])
        company = [other for other in others if self._rng.random() < share]
        self.world.network.partition(
            [victim.name, *company], [name for name in others if name not in company]
        )
        await asyncio.sleep(self._rng.choice([0.1, 1.0, 5.0]))
        self.world.network.heal()

    async def _one_way(self, victim: SimulatedMachine) -> None:
        for other in self._others(victim):
            way = (victim.name, other) if self._rng.random() < 0.5 else (other, victim.name)
            self.world.network.block(*way)
        await asyncio.sleep(self._rng.choice([0.1, 1.0, 5.0]))
        self.world.network.heal()

    async def _slow_network(self, victim: SimulatedMachine) -> None:
        self.world.network.conditions = replace(
            self._usual_conditions,
            latency_s_max=self._rng.choice([0.05, 0.3]),
            loss_rate=self._rng.choice([0.0, 0.05, 0.2]),
        )
        await asyncio.sleep(self._rng.choice([0.5, 3.0]))
        self.world.network.conditions = self._usual_conditions

    def _others(self, victim: SimulatedMachine) -> list[str]:
        return [name for name in self.world.machines if name != victim.name]

    # --- clocks and disks ---

    async def _clock_jump(self, victim: SimulatedMachine) -> None:
        victim.clock.jump(self._rng.choice([-3_600_000, -1_000, 1_000, 3_600_000]))

    async def _disk_full(self, victim: SimulatedMachine) -> None:
        victim.disk.faults.is_full = True
        await asyncio.sleep(self._rng.choice([0.1, 1.0, 3.0]))
        victim.disk.faults.is_full = False

    async def _disk_errors(self, victim: SimulatedMachine) -> None:
        faults = victim.disk.faults
        faults.write_error_rate = self._rng.choice([0.0, 0.1, 1.0])
        faults.sync_error_rate = self._rng.choice([0.0, 0.1, 1.0])
        await asyncio.sleep(self._rng.choice([0.01, 0.2, 1.0]))
        faults.write_error_rate = faults.sync_error_rate = 0.0

    async def _slow_disk(self, victim: SimulatedMachine) -> None:
        if victim.process is not None:
            loop = victim.process.loop
            loop.job_seconds = (0.01, self._rng.choice([0.1, 1.0, 3.0]))
            await asyncio.sleep(self._rng.choice([0.5, 3.0]))
            loop.run_jobs_at_usual_speed()

    async def _bit_flip(self, victim: SimulatedMachine) -> None:
        self._flip(victim, self._rng)


def flip_any_file(victim: SimulatedMachine, rng: random.Random) -> None:
    paths = victim.disk.files()
    if paths:
        victim.disk.flip_bit(rng.choice(paths))
