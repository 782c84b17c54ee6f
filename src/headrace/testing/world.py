"""A whole world under one seed: machines, the network between them, time, chance, and what must always hold.

A scenario makes machines, boots programs on them and runs a script of its own on the driver's loop. While
it runs, checks are made after every step or at checkpoints. Whatever breaks a rule ends the run with an
error that names the seed; the same seed plays the same run again, to the last byte, as the trace's digest
proves.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headrace.testing.conditions import Conditions
from headrace.testing.disk import CAPACITY_BYTES
from headrace.testing.loop import SimulatedLoop
from headrace.testing.machine import Program, SimulatedMachine
from headrace.testing.network import VirtualNetwork
from headrace.testing.scheduler import Scheduler, SimulationError

if TYPE_CHECKING:
    from headrace.testing.nemesis import Trouble

T = TypeVar("T")

# How often a script looks whether what it waits for has come about. Virtual time, so it costs little.
LOOK_S: Final = 0.01


class CheckFailedError(SimulationError):
    """A rule of the world was broken."""


class CrashedError(SimulationError):
    """The machine whose answer was waited for crashed."""


class World:
    """Everything that happens under one seed."""

    def __init__(
        self,
        seed: int | str,
        *,
        conditions: Conditions | None = None,
        steps_max: int = 5_000_000,
        echo: Callable[[str], None] | None = None,
        echoes_details: bool = False,
        faults: Collection["Trouble"] | None = None,
    ) -> None:
        """`faults` are those that may happen; all that a scenario knows where it is None."""
        self.seed = seed
        self.faults = faults
        self.scheduler = Scheduler(seed, steps_max=steps_max, echo=echo, echoes_details=echoes_details)
        self.network = VirtualNetwork(self.scheduler, conditions)
        self.rng = self.scheduler.random_for("world")
        self.machines: dict[str, SimulatedMachine] = {}
        self.loops: list[SimulatedLoop] = []
        self.driver = self.new_loop("driver")

    # --- making ---

    def machine(self, name: str, *, disk_bytes: int = CAPACITY_BYTES) -> SimulatedMachine:
        """The machine of that name; a new one, without a process, the first time."""
        if name not in self.machines:
            self.machines[name] = SimulatedMachine(self, name, disk_bytes=disk_bytes)
        return self.machines[name]

    def new_loop(self, name: str) -> SimulatedLoop:
        loop = SimulatedLoop(self.scheduler, name=name)
        self.loops.append(loop)
        return loop

    def check_every_step(self, check: Callable[[], None]) -> None:
        """`check` is called after every step and raises where a rule is broken."""
        self.scheduler.after_step.append(check)

    def keep_running(
        self,
        machine: SimulatedMachine,
        program: Program,
        *,
        may_end_with: tuple[type[BaseException], ...] = (),
    ) -> None:
        """Boot the program, and boot it again whenever it ends: a supervisor that is never away for long.

        A program that ends by itself, with any other error than these, has broken a rule.
        """

        def boot() -> None:
            if machine.process is None:
                task = machine.boot(program, may_fail=True)
                machine.on_crash.append(again)
                task.add_done_callback(lambda done: self.driver.call_soon(ended, done))

        def again() -> None:
            self.scheduler.after(machine.rng.uniform(0.05, 1.5), boot)

        def ended(task: "asyncio.Task[Any]") -> None:
            error = task.exception()
            self.note(f"{machine.name} ends by itself: {type(error).__name__}")
            if error is not None and not isinstance(error, may_end_with):
                self.fail(error)
            machine.retire()

        boot()

    # --- running ---

    def run(self, script: Coroutine[Any, Any, T]) -> T:
        """Run the script to its end, and the world with it; then look for what went wrong unseen."""
        result = self.driver.run_until_complete(script)
        self.check_uncaught()
        return result

    async def until(
        self, condition: Callable[[], bool], *, timeout_s: float, what: str, look_s: float = LOOK_S
    ) -> None:
        """Wait in the driver's script; CheckFailedError where it does not come about in time."""
        deadline = self.driver.time() + timeout_s
        while not condition():
            if self.driver.time() >= deadline:
                raise CheckFailedError(f"not within {timeout_s} virtual seconds: {what}")
            await asyncio.sleep(look_s)

    def result(self, machine: SimulatedMachine, task: "asyncio.Future[T]") -> Awaitable[T]:
        """The result of another machine's task, to be awaited in the driver's script.

        CrashedError where the machine ends before the task does.
        """
        answer: asyncio.Future[T] = self.driver.create_future()

        def done(_: "asyncio.Future[T]") -> None:
            if not answer.done():
                error = task.exception()
                if error is None:
                    answer.set_result(task.result())
                else:
                    answer.set_exception(error)

        def crashed() -> None:
            if not answer.done():
                answer.set_exception(CrashedError(machine.name))

        if task.done():
            done(task)
        elif machine.process is None:
            crashed()
        else:
            task.add_done_callback(done)
            machine.on_crash.append(crashed)
        return answer

    # --- judging ---

    def note(self, text: str) -> None:
        self.scheduler.note(text)

    def fail(self, error: BaseException) -> None:
        """End the run after this step: something found a broken rule where it could not raise."""
        if self.scheduler.failure is None:
            self.scheduler.failure = error

    def fail_program(self, name: str, error: BaseException) -> None:
        """A program ended with an error that nobody looks at: a rule that it found broken, or a fault."""
        if not isinstance(error, CheckFailedError):
            cause, error = error, CheckFailedError(f"the program of {name} failed: {error!r}")
            error.__cause__ = cause
        self.fail(error)

    def check_uncaught(self) -> None:
        """No process let an exception through to its loop."""
        for loop in self.loops:
            for context in loop.uncaught:
                error = context.get("exception")
                told = f"{loop.name}: {context.get('message')}: {error!r}"
                raise CheckFailedError(told) from error

    @property
    def virtual_s(self) -> float:
        return (self.scheduler.now_ns - self.scheduler.start_ns) / 1e9

    def digest(self) -> str:
        return self.scheduler.trace.digest()

    def close(self) -> None:
        """End every process, so that nothing of this world outlives it."""
        for loop in self.loops:
            loop.kill()
