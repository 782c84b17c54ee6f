"""A simulated machine: a disk, a clock and a network address that outlive the processes that run on it.

`boot` starts a program as a new process with a loop of its own and the machine's parts as parameters: the
same five that a node's assembly takes. `crash` ends it without warning, at any time, also from inside one
of its own disk operations (`crash_within`); the disk then becomes what that kind of crash leaves.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.testing.clock import WALL_MS_AT_START, VirtualClock
from headrace.testing.disk import CAPACITY_BYTES, Crash, VirtualDisk
from headrace.testing.loop import SimulatedLoop
from headrace.testing.network import Host

if TYPE_CHECKING:
    from headrace.testing.world import World


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a process gets from its machine: the parameters of a node's assembly."""

    loop: SimulatedLoop
    clock: VirtualClock
    disk: VirtualDisk
    network: Host
    rng: random.Random


Program = Callable[[Surroundings], Coroutine[Any, Any, Any]]


class SimulatedMachine:
    """One machine of a world; made by `World.machine`."""

    def __init__(self, world: "World", name: str, *, disk_bytes: int = CAPACITY_BYTES) -> None:
        self.world = world
        self.name = name
        self.rng = world.scheduler.random_for(f"machine/{name}")
        # No two machines agree on the time of day.
        skew_ms = self.rng.randint(-5_000, 5_000)
        self.clock = VirtualClock(lambda: world.scheduler.now_ns, wall_ms=WALL_MS_AT_START + skew_ms)
        self.disk = VirtualDisk(
            rng=world.scheduler.random_for(f"disk/{name}"),
            clock=self.clock,
            capacity_bytes=disk_bytes,
            note=lambda text: world.scheduler.note(f"{name} {text}"),
            note_detail=lambda text: world.scheduler.note_detail(f"{name} {text}"),
        )
        self.boots = 0
        self.process: Surroundings | None = None
        self.on_crash: list[Callable[[], None]] = []
        self.crashes: list[Crash] = []

    @property
    def is_running(self) -> bool:
        return self.process is not None

    def boot(self, program: Program, *, may_fail: bool = False) -> asyncio.Task[Any]:
        """Start `program` as this machine's process. The task is of that process: see `World.result`.

        A program that fails has broken a rule of the world, unless it `may_fail` because somebody looks.
        """
        assert self.process is None, f"{self.name} runs already"
        self.boots += 1
        self.world.note(f"{self.name} boots")
        loop = self.world.new_loop(self.name)
        rng = self.world.scheduler.random_for(f"process/{self.name}/{self.boots}")
        host = self.world.network.attach(self.name, loop)
        self.process = Surroundings(loop, self.clock, self.disk, host, rng)
        task = loop.create_task(program(self.process))
        if not may_fail:
            task.add_done_callback(self._note_failure)
        return task

    def _note_failure(self, task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.world.fail_program(self.name, error)

    def crash(self, how: Crash) -> None:
        """End the process where it stands. Nothing happens when there is none."""
        if self.process is None:
            return
        process, self.process = self.process, None
        self.crashes.append(how)
        self.world.note(f"{self.name} ends: {how.value}")
        process.loop.end()
        self.disk = self.disk.crash(how)
        self.world.network.detach(process.network, power_cut=how is Crash.POWER_CUT)
        process.loop.close_coroutines()
        callbacks, self.on_crash = self.on_crash, []
        for callback in callbacks:
            callback()

    def crash_within(self, operations: int, how: Crash) -> None:
        """Crash in the middle of the disk operation that comes after `operations` more."""
        self.disk.faults.stop_after(operations, lambda: self.crash(how))

    def pause(self) -> None:
        if self.process is not None:
            self.process.loop.pause()

    def resume(self) -> None:
        if self.process is not None:
            self.process.loop.resume()

    def retire(self) -> None:
        """The process ended by itself, in good order; files and names are as it left them."""
        self.crash(Crash.KILL)
